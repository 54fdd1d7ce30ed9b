"""Trials with chosen rewards, as input of the rules."""

from __future__ import annotations

from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.answer_formats import tag_wrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.faults import Problem, ProblemCode
from prime_lab_mcp.lab.worker.scoring import CaseError, Component, Scored

GOLDS = SampleGolds("answer", "numeric", tuple(TaskGold(n, str(n + 40), (str(n + 40),)) for n in range(10)), ())
STYLE = AnswerStyle(GOLDS, 0, tag_wrapper("answer"))
REWARDS = (RewardInfo("correct", 1.0, "reward", True),)


def problem(text: str) -> Problem:
    """A problem from `CODE` or `CODE:DETAIL`."""
    code, _, detail = text.partition(":")
    return Problem(ProblemCode(code), detail)


def scored(reward: float | None, *problems: str, error: str = "") -> Scored:
    errors = (CaseError("ValueError", error, "reward.py:3"),) if error else ()
    return Scored(
        "x",
        reward,
        {"correct": Component(reward, 1.0)},
        problems=tuple(map(problem, problems)),
        errors=errors,
        ms=1.0,
    )


def scored_probe(
    family: Family, variant: str, reward: float | None, *problems: str, row: int = 0, near: bool = False
) -> ScoredProbe:
    draft = Draft(family, " ".join(filter(None, (family, variant, f"of {row}"))), variant, near)
    return ScoredProbe(draft.probe(f"{row}/{family}/{variant}", row), scored(reward, *problems))


def sound(*more: ScoredProbe, golds: tuple[ScoredProbe, ...] = (), **fields: object) -> Trial:
    """A trial of a sound reward, with more scored_probes."""
    kept = {s.probe.id for s in more}
    usual = (
        scored_probe(Family.GOLD, "", 1.0),
        scored_probe(Family.AFTER_REASONING, "reasoning", 1.0),
        scored_probe(Family.WRONG, "off by one", 0.0),
        scored_probe(Family.EMPTY, "empty reply", 0.0),
        scored_probe(Family.MALFORMED_WRONG, "no tag", 0.0),
    )
    run = golds or tuple(scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(10))
    values = {"rewards": REWARDS, "style": STYLE, "form_requested": True, "tasks": 10, **fields}
    return Trial(golds=run, scored_probes=(*(s for s in usual if s.probe.id not in kept), *more), **values)  # type: ignore[arg-type]


def found(trial: Trial) -> set[tuple[str, str]]:
    return {(f.code, f.severity) for f in reward_findings(trial)}
