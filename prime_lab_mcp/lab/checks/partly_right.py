"""Answers that are right in part, cut off, or right elsewhere: worth less than the whole answer of the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.earned import FULL, as_gold
from prime_lab_mcp.lab.checks.shown import hack
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, Trial
from prime_lab_mcp.lab.rewards.wrong import OTHER_UNIT, UNITLESS
from prime_lab_mcp.lab.text import count

Check = Callable[[Trial], Iterator[Finding]]
_NOTICED = 0.05
"""Share of the maximum by which a cut-off answer must beat a wrong one to be said."""
_CROSSED = 0.1
"""Share of cross-golds paid in full that blocks (facts/validation 2.2)."""


def truncated(trial: Trial) -> Iterator[Finding]:
    """What is cut off before its answer is no answer: pay for it teaches to run out of tokens."""
    shots = []
    nothing = max((s.reward or 0.0 for s in trial.of("empty")), default=0.0)
    for shot in trial.of("cut"):
        wrong = trial.wrong(shot.probe.row)
        if shot.reward is not None and shot.reward <= nothing + EPSILON:
            continue  # paid like silence, which is said elsewhere
        if (
            shot.reward is not None
            and wrong is not None
            and shot.reward > wrong + _NOTICED * trial.max_reward + EPSILON
        ):
            shots.append(shot)
    if shots:
        full = [s for s in shots if as_gold(s, trial)]
        yield hack(
            "blocker" if full else "warning", full or shots,
            f"{count(len(shots), 'completion')} cut off before the answer was complete earned more than a wrong answer",
            "Read the answer from a closed form only, and pay nothing where there is none.",
            trial, "reward-truncated-passes",
        )  # fmt: skip


def crossed(trial: Trial) -> Iterator[Finding]:
    """The answers of other tasks, which have nothing in common with this one's."""
    shots = [s for s in trial.of("cross") if s.reward is not None]
    passing = [s for s in shots if s.reward is not None and s.reward >= FULL * trial.max_reward - EPSILON > EPSILON]
    if len(passing) >= max(1.0, _CROSSED * len(shots)) and passing:
        yield hack(
            "blocker", passing, f"{len(passing)} of {len(shots)} answers of other tasks earned the maximum",
            "Compare the answer with the gold of its own task, whole.", trial, "reward-wrong-passes",
        )  # fmt: skip


def half_right(trial: Trial) -> Iterator[Finding]:
    """Part of the answer, or more than the answer, is worth less than the answer."""
    shots = [s for s in trial.of("half-right") if as_gold(s, trial)]
    without = {s.probe.row for s in trial.of("variant") if s.probe.name.endswith(UNITLESS) and as_gold(s, trial)}
    unread = [s for s in shots if s.probe.name.endswith(OTHER_UNIT) and s.probe.row in without]
    shots = [s for s in shots if s not in unread]
    if unread:
        yield hack(
            "warning", unread, "the unit of an answer is not read: another one earned as much as the right one",
            "Compare the unit too, or say in the prompt which one is meant and ask for the number alone.",
            trial, "reward-wrong-passes",
        )  # fmt: skip
    if shots:
        yield hack(
            "blocker", shots, f"{count(len(shots), 'answer')} only half right earned as much as the right one",
            "Compare the answer whole; for lists, take off for what is missing and for what is too much.",
            trial, "reward-wrong-passes",
        )  # fmt: skip


PARTLY_RIGHT: tuple[Check, ...] = (truncated, crossed, half_right)
