"""The relations a reward must keep, each a pure function of what was observed; `CHECKS` is what test_reward applies.

A relation names the harm, never a value: right beats wrong, wrong beats nothing, the same gives the same. What pays for
something wrong blocks, because training finds it and follows it; what misses something right warns, until gold fails.
Catalogue, thresholds and severities: facts/validation 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.checks.earned import HALF, mean
from prime_lab_mcp.lab.checks.hacks import HACKS
from prime_lab_mcp.lab.checks.hostile import HOSTILE
from prime_lab_mcp.lab.checks.judges import JUDGES
from prime_lab_mcp.lab.checks.partly_right import PARTLY_RIGHT
from prime_lab_mcp.lab.checks.programs import PROGRAMS
from prime_lab_mcp.lab.checks.right_and_wrong import (
    constant,
    empty_golds,
    gold_fails,
    malformed_beats_wrong,
    wrong_passes,
)
from prime_lab_mcp.lab.checks.rollouts import ROLLOUTS
from prime_lab_mcp.lab.checks.scoring import SCORING
from prime_lab_mcp.lab.checks.strictness import ignores_format, too_strict
from prime_lab_mcp.lab.checks.supplied_cases import no_gold, supplied_cases
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import Shot, Trial
from prime_lab_mcp.lab.rewards.probes import Kind

Check = Callable[[Trial], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Sanity:
    """One of the seed's four checks, under its name there. `code` is the finding that explains a failure."""

    name: str
    passed: bool | None
    """None where nothing was scored that could tell."""
    code: str

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed}


def judge(trial: Trial) -> list[Finding]:
    """Every finding about one trial, blockers first.

    A constant reward is reported as that, and one that varies for the same text as that: comparing what single
    completions earned says nothing then.
    """
    found = [finding for check in CHECKS for finding in check(trial)]
    decisive = [f for f in found if f.code in _DECISIVE]
    if decisive:
        found = decisive + [f for f in found if f.code in _BESIDE]
    order = {"blocker": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: order[f.severity])


_DECISIVE = frozenset({"reward-constant", "reward-nondeterministic", "reward-order-dependent"})


_BESIDE = frozenset({
    "reward-raises", "reward-slow", "reward-sync", "reward-type", "reward-nonfinite", "tasks-change",
    "reward-judge-unreachable", "reward-judge-unread", "reward-rollout-fails", "reward-rollout-endless",
    "reward-evaluates-output", "reward-opens-network", "reward-writes-files", "reward-leaves-processes",
})  # fmt: skip


def sanity(trial: Trial) -> list[Sanity]:
    """The seed's four checks, on rewards as a share of the declared weights. Supplied cases count as gold and wrong."""
    golds = [s.reward for s in (*trial.golds, *trial.of("gold")) if s.reward is not None]
    kinds: list[Kind] = ["wrong", "malformed", "empty"]
    wrongs = [s.reward for s in trial.of(*kinds) if s.reward is not None and not s.probe.near]
    golds += [s.shot.reward for s in trial.supplied if s.high and s.shot.reward is not None]
    wrongs += [s.shot.reward for s in trial.supplied if not s.high and s.shot.reward is not None]
    half = HALF * trial.declared
    high, low = mean(golds), mean(wrongs)
    beaten = None if high is None or low is None else high > low
    everything = {round(r, 9) for s in trial.everything if (r := s.reward) is not None}
    return [
        Sanity("Gold rewards > wrong rewards", beaten, "reward-wrong-passes"),
        Sanity("At least one gold > 0.5", any(g > half for g in golds) if golds else None, "reward-gold-fails"),
        Sanity("At least one wrong < 0.5", any(w < half for w in wrongs) if wrongs else None, "reward-wrong-passes"),
        Sanity("Not all rewards identical", len(everything) > 1 if everything else None, "reward-constant"),
    ]  # fmt: skip


CHECKS: tuple[Check, ...] = (
    *SCORING, *HOSTILE, constant, no_gold, empty_golds, gold_fails, wrong_passes, malformed_beats_wrong, supplied_cases,
    *HACKS, *JUDGES, *PARTLY_RIGHT, *PROGRAMS, ignores_format, too_strict, *ROLLOUTS,
)  # fmt: skip


def components(trial: Trial) -> list[dict[str, Any]]:
    """What each part of the reward pays right and wrong answers on average."""
    golds = [*trial.golds, *(s.shot for s in trial.supplied if s.high)]
    wrongs = [*trial.of("wrong"), *(s.shot for s in trial.supplied if not s.high)]
    names = dict.fromkeys([r.name for r in trial.rewards if r.kind != "metric"])
    weights = {r.name: r.weight for r in trial.rewards}
    for shot in golds:
        for name, part in shot.scored.components.items():
            names.setdefault(name)
            weights.setdefault(name, part.weight)
    return [
        {
            "name": name,
            "weight": weights.get(name, 1.0),
            "gold_mean": _rounded(_part(golds, name)),
            "wrong_mean": _rounded(_part(wrongs, name)),
        }
        for name in names
    ]


def _part(shots: Sequence[Shot], name: str) -> list[float]:
    found = [s.scored.components[name].score for s in shots if name in s.scored.components]
    return [f for f in found if f is not None]


def _rounded(values: Sequence[float]) -> float | None:
    found = mean(values)
    return None if found is None else round(found, 4)
