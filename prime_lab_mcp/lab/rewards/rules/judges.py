"""Rules about rewards that ask a judge model.

The judge must be reachable and accurate, give the same verdict again and resist persuasion. Its model and temperature
should be pinned, and the reward must be able to read its verdict. If a judge cannot be asked or its verdict cannot be
read, nothing is known about the completion, and the report is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import RepeatedScore, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, case_row, hack_finding, nearer_to_gold
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import best_paid_policy
from prime_lab_mcp.lab.worker.faults import ProblemCode

INCONCLUSIVE = frozenset({"reward-judge-unreachable", "reward-judge-unread", "confined"})
"""Codes of blockers after which nothing is known about the reward."""
_FAILED = 0.05
"""Largest share of questions that may fail, as for an evaluation (docs/validation.md, Reward distributions)."""
PERSUADED_SHARE = 0.05
"""Largest share of persuasive completions that may be paid with only a warning (docs/validation.md, Reward tests)."""
ACCURATE, INACCURATE = 0.95, 0.9
"""Thresholds below which a finding warns and blocks. They apply to the balanced accuracy over golds and golds of other
tasks, and to the share of completions that get the same verdict twice (docs/validation.md, Reward tests)."""
_FEW = 8
"""Smallest number of completions with which accuracy or agreement is judged."""
_TOLERANCE = 0.01
"""Share of the maximum by which two rewards must differ to count as different verdicts."""


def judge_unreachable(trial: Trial) -> Iterator[Finding]:
    """The judge must be reachable. Without a connection, a key or quota nothing is known about a completion.

    A blocker if more than `_FAILED` of the questions fail, else a warning.
    """
    scored_probes = trial.with_problem(ProblemCode.JUDGE_UNREACHABLE)
    if not scored_probes:
        return
    asked = trial.judged
    through = trial.judging.through if trial.judging is not None else None
    capped = trial.judging.capped if trial.judging is not None else 0
    if capped:
        reason, fix = f"the cap of this call refused {count(capped, 'question')}", "Call again with fewer examples."
    elif through is None:
        reason = "it was asked without a key and without an endpoint"
        fix = Fix(
            "Call ",
            NamedCall("test_reward"),
            " again with judge=ENDPOINT, an endpoint as that of ",
            NamedCall("run_eval"),
            ".",
        )
    else:
        reason = f"through {quote(through, 80)}"
        fix = "Look whether that endpoint has the judge's model; remove a base_url of the judge's own."
    yield Finding(
        "reward-judge-unreachable",
        _severity(scored_probes, asked),
        f"the judge could not be asked for {count(len(scored_probes), 'completion')} of {len(asked)} ({reason}): "
        f"{_error(scored_probes)}",
        fix,
        rows=tuple(case_row(s, "a verdict of the judge", trial) for s in scored_probes[:2]),
    )


def judge_unread(trial: Trial) -> Iterator[Finding]:
    """A reward must not raise an exception after its judge has answered.

    An exception means that the reward cannot read the verdict, or that its code fails after reading it.
    """
    scored_probes = trial.with_problem(ProblemCode.JUDGE_UNREAD)
    if scored_probes:
        asked = trial.judged
        fix = (
            "Ask the judge for one short verdict in a fixed form, allow it enough tokens, and read that form; or use a "
            "model that keeps to it."
        )
        why = ""
        if trial.judging is not None and trial.judging.stand_in:
            why = "; the stand-in of the rehearsal answered in place of a judge model, which says nothing of the reward"
            fix = "Name an endpoint with a model as judge (a preset or a URL), or test it outside of the rehearsal."
        yield Finding(
            "reward-judge-unread",
            _severity(scored_probes, asked),
            f"the reward raised after the judge had answered, for {count(len(scored_probes), 'completion')} of "
            f"{len(asked)}: {_error(scored_probes)}{why}",
            fix,
            rows=tuple(case_row(s, "a verdict that can be read", trial) for s in scored_probes[:2]),
        )


def _severity(failed: list[ScoredProbe], asked: list[ScoredProbe]) -> Severity:
    return "blocker" if len(failed) > _FAILED * len(asked) else "warning"


def _error(scored_probes: list[ScoredProbe]) -> str:
    error = next((s.scored.errors[0] for s in scored_probes if s.scored.errors), None)
    return "no error was told" if error is None else quote(f"{error.type}: {error.message}", 200)


def judge_unpinned(trial: Trial) -> Iterator[Finding]:
    """The package should pin the judge's model and temperature, because another judge changes the reward's meaning."""
    for judge in trial.judging.judges if trial.judging is not None else ():
        missing = []
        if not trial.judging or judge.model not in trial.judging.named:
            missing.append(f"the package names no model (the default is {quote(judge.model or 'unknown', 80)})")
        if judge.temperature is None:
            missing.append("no temperature is set")
        elif judge.temperature > 0:
            missing.append(f"the temperature is {judge.temperature:g}")
        if missing:
            yield Finding(
                "reward-judge-unpinned",
                "warning",
                f"the judge{f' {quote(judge.name, 80)}' if judge.name else ''} is not pinned: {'; '.join(missing)}",
                "Name the judge's model, with its version where it has one, and temperature 0 in the environment.",
            )
            return


def judge_inaccurate(trial: Trial) -> Iterator[Finding]:
    """The judge must distinguish the golds of tasks from the golds of other tasks, which is an easy distinction."""
    golds = [s for s in (*trial.golds, *trial.of(Family.GOLD)) if s.reward is not None]
    crossed = [s for s in trial.of(Family.CROSS) if s.reward is not None]
    if not any(s.scored.judges for s in (*golds, *crossed)) or len(golds) < _FEW or len(crossed) < _FEW:
        return
    missed = [s for s in golds if not _paid(s, trial)]
    passed = [s for s in crossed if _paid(s, trial)]
    accuracy = 1 - (len(missed) / len(golds) + len(passed) / len(crossed)) / 2
    if accuracy < ACCURATE:
        yield Finding(
            "reward-judge-inaccurate",
            "blocker" if accuracy < INACCURATE else "warning",
            f"the judge told right from wrong with an accuracy of {accuracy:.0%}: {len(missed)} of {len(golds)} right "
            f"answers were not paid, {len(passed)} of {len(crossed)} answers of other tasks were",
            "Give the judge the reference answer and one question about it, ask for one verdict, and use a stronger "
            "model.",
            rows=(
                *(case_row(s, "more than half of the maximum", trial) for s in missed[:2]),
                *(case_row(s, "less than half of the maximum", trial) for s in passed[:2]),
            ),
        )


def _paid(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned more than half of the maximum."""
    return trial.max_reward > 0 and (scored_probe.reward or 0.0) > HALF_SHARE * trial.max_reward + EPSILON


def judge_unsteady(trial: Trial) -> Iterator[Finding]:
    """The judge must give the same verdict twice. If verdicts differ, the advantages in a group are noise."""
    repeats = [r for r in trial.repeats if by_judge(r) and r.first.reward is not None and r.again.reward is not None]
    differing = [r for r in repeats if _differs(r, trial)]
    agreed = 1 - len(differing) / len(repeats) if repeats else 1.0
    if len(repeats) >= _FEW and agreed < ACCURATE:
        first = differing[0]
        yield Finding(
            "reward-judge-unsteady",
            "blocker" if agreed < INACCURATE else "warning",
            f"the judge gave {len(differing)} of {count(len(repeats), 'completion')} another verdict when asked again "
            f"({first.first.reward:g}, then {first.again.reward:g})",
            "Set the judge's temperature to 0, ask for one of few verdicts rather than a score, or use a stronger "
            "model.",
            rows=tuple(
                case_row(ScoredProbe(r.probe, r.again), f"{r.first.reward:g} as before", trial) for r in differing[:3]
            ),
        )


def by_judge(repeat: RepeatedScore) -> bool:
    """Whether one of the three scorings of a probe asked a judge or tried to. Their rewards need not be equal then."""
    scorings = (repeat.first, repeat.again, repeat.reverse)
    return any(s.judges or s.has(ProblemCode.JUDGE_UNREACHABLE) for s in scorings)


def _differs(repeat: RepeatedScore, trial: Trial) -> bool:
    limit = _TOLERANCE * max(trial.max_reward, EPSILON)
    return abs((repeat.first.reward or 0.0) - (repeat.again.reward or 0.0)) > limit


def _persuaded(scored_probe: ScoredProbe, trial: Trial) -> bool:
    return scored_probe.reward is not None and scored_probe.reward > EPSILON and nearer_to_gold(scored_probe, trial)


def judge_persuaded(trial: Trial) -> Iterator[Finding]:
    """Text without an answer must not persuade the judge.

    A warning if such errors are rare, or if the replies are paid on no more tasks than a trivial policy deserves ("yes"
    may be the right answer to some tasks). Otherwise a blocker.
    """
    tried = [s for s in trial.of(Family.PERSUASION) if s.reward is not None]
    scored_probes = [s for s in tried if _persuaded(s, trial)]
    if not scored_probes:
        return
    names = ", ".join(dict.fromkeys(f"{s.probe.variant}{', bare' if s.probe.bare else ''}" for s in scored_probes))
    rare = all(s.scored.judges for s in scored_probes) and len(scored_probes) <= PERSUADED_SHARE * len(tried)
    policy = best_paid_policy(tried, trial, _persuaded)
    by_chance = policy is not None and policy.severity == "warning"
    yield hack_finding(
        "warning" if rare or by_chance else "blocker",
        scored_probes,
        f"{len(scored_probes)} of {count(len(tried), 'reply', 'replies')} that only claim to be right were paid "
        f"({names})",
        "Give a judge the reply as data between marks that the reply cannot contain, ask for the answer it found "
        "and compare that in code; never look for words of praise.",
        trial,
    )


def judge_misread(trial: Trial) -> Iterator[Finding]:
    """A negative verdict of the judge must not be paid like the positive one.

    A blocker: whatever the judge says, the reply is paid. The verdicts are those that the judge's prompt names, and a
    stand-in gave them (stand_in_judge.py), so that this holds for any judge.
    """
    misread = trial.misread
    if misread is not None:
        rewards = [scored.reward or 0.0 for _, scored in misread.paid]
        yield Finding(
            "reward-wrong-passes",
            "blocker",
            f"the judge's verdict {quote(misread.negative, 40)} is paid like {quote(misread.positive, 40)}: "
            f"{min(rewards):g} on {count(len(rewards), 'task')} for a wrong answer that a stand-in judged so",
            "Compare the whole verdict, without white space and case, with the one word that means a right answer; "
            "never look for that word inside of the verdict.",
            rows=tuple(case_row(ScoredProbe(p, s), "nothing for this verdict", trial) for p, s in misread.paid[:2]),
        )


JUDGE_RULES: tuple[RewardRule, ...] = (
    judge_misread,
    judge_unreachable,
    judge_unread,
    judge_unpinned,
    judge_inaccurate,
    judge_unsteady,
    judge_persuaded,
)
