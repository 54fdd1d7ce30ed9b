"""How what a completion earned stands to what right and wrong ones of its task earned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Trial

GOLD_PASS = 0.99
"""Share of tasks whose gold must earn the maximum (facts/validation 1.3)."""
FULL = 0.99
HALF = 0.5
_MOSTLY = 0.8
"""Share of the way from a wrong answer to the right one: a graded format reward must not hide what is paid for."""


def gold_pass_rate(trial: Trial) -> float | None:
    """Share of scored golds that earn 99% of the maximum or more; None where no gold was scored."""
    scored = run(trial.golds)
    if not scored or trial.style is None:
        return None
    return sum(full(s, trial.max_reward) for s in scored) / len(scored)


def run(shots: Iterable[Shot]) -> list[Shot]:
    return [s for s in shots if "not-run" not in s.scored.problems]


def full(shot: Shot, maximum: float) -> bool:
    return maximum > 0 and shot.reward is not None and shot.reward >= FULL * maximum - EPSILON


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def as_gold(shot: Shot, trial: Trial) -> bool:
    """Worth as much as the right answer of the task, while a wrong one is worth less."""
    gold, wrong = trial.gold(shot.probe.row), trial.wrong(shot.probe.row)
    if shot.reward is None or gold is None or gold <= EPSILON:
        return False
    return shot.reward >= gold - EPSILON and (wrong is None or wrong < gold - EPSILON)


def mostly_gold(shot: Shot, trial: Trial) -> bool:
    """Paid for the answer of the task, whatever its form cost."""
    gold, wrong = trial.gold(shot.probe.row), trial.wrong(shot.probe.row)
    if shot.reward is None or gold is None or wrong is None or wrong >= gold - EPSILON:
        return as_gold(shot, trial)
    return shot.reward >= wrong + _MOSTLY * (gold - wrong)


def over(shot: Shot, trial: Trial) -> bool:
    """Nearer to what the right answer earned than to what a wrong one did."""
    gold, wrong = trial.gold(shot.probe.row), trial.wrong(shot.probe.row)
    if shot.reward is None or gold is None or gold <= EPSILON:
        return False
    floor = wrong if wrong is not None and wrong < gold - EPSILON else 0.0
    return shot.reward > floor + HALF * (gold - floor) + EPSILON
