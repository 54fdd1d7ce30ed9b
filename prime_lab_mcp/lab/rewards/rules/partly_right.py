"""Rules about partly right answers, which must earn less than the right answer.

The answers are truncated, belong to another task, lack or add a part, or have another unit.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import OTHER_ORDER, number_and_unit
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, earned_as_gold, hack_finding
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE

_NOTICED = 0.05
"""Share of the maximum by which a truncated completion must exceed a wrong answer to be reported."""
_CROSSED = 0.1
"""Share of golds of other tasks that are paid in full from which on the rule blocks (docs/validation.md, Reward
tests)."""

_CROSSED_CASES, _FEWEST_CROSSED = 0.9, 9
"""The same share, and the smallest number of replies, if the replies are right ones of the caller (our choice)."""

_FEWEST_ORDERS, _ORDERS_SHARE = 3, 0.75
"""How many tasks, and which share of those tried, must pay the opposite order (our choice)."""


def truncated_answer(trial: Trial) -> Iterator[Finding]:
    """A completion that is truncated before its answer must not earn more than a wrong answer.

    A blocker if the text before the answer is paid like the right answer, because it does not contain the answer.
    """
    scored_probes = []
    nothing = max((s.reward or 0.0 for s in trial.of(Family.EMPTY)), default=0.0)
    for scored_probe in trial.of(Family.CUT):
        wrong = trial.wrong(scored_probe.probe.row)
        if scored_probe.reward is not None and scored_probe.reward <= nothing + EPSILON:
            continue  # The empty reply earns as much, which `malformed_beats_wrong` reports.
        if (
            scored_probe.reward is not None
            and wrong is not None
            and scored_probe.reward > wrong + _NOTICED * trial.max_reward + EPSILON
        ):
            scored_probes.append(scored_probe)
    if scored_probes:
        full = [s for s in scored_probes if earned_as_gold(s, trial)]
        yield hack_finding(
            "blocker" if full else "warning",
            full or scored_probes,
            f"{count(len(scored_probes), 'completion')} cut off before the answer was complete earned more than a "
            "wrong answer",
            "Read the answer from a closed form only, and pay nothing where there is none.",
            trial,
            "reward-truncated-passes",
        )


def crossed_answer(trial: Trial) -> Iterator[Finding]:
    """The unrelated answers of other tasks must not earn the maximum. A blocker from a share of 10% on.

    Without golds, the answers are right replies of the caller, and a reply may be right for several tasks. Then nearly
    all of them must be paid on nearly all tasks.
    """
    scored_probes = [s for s in trial.of(Family.CROSS) if s.reward is not None]
    passing = [
        s
        for s in scored_probes
        if s.reward is not None and s.reward >= FULL_SHARE * trial.maximum(s.probe.row) - EPSILON > EPSILON
    ]
    needed = _CROSSED if trial.style is not None else _CROSSED_CASES
    if trial.style is None and len(scored_probes) < _FEWEST_CROSSED:
        return
    if len(passing) >= max(1.0, needed * len(scored_probes)) and passing:
        yield hack_finding(
            "blocker",
            passing,
            f"{len(passing)} of {len(scored_probes)} answers of other tasks earned the maximum",
            "Compare the answer with the gold of its own task, whole."
            if trial.style is not None
            else "Compare the reply with what its own task asks for.",
            trial,
            "reward-wrong-passes",
        )


def half_right_answer(trial: Trial) -> Iterator[Finding]:
    """Part of the answer, or the answer beside a wrong one, must earn less than the answer alone.

    A blocker if items of a list may be left out or added, because a model then learns only half of the answer. A
    warning for the right answer beside a wrong one, which only a model that knows the right one can write.
    """
    halves = [s for s in trial.of(Family.HALF_RIGHT) if s.probe.variant != OTHER_ORDER]
    scored_probes = [s for s in halves if earned_as_gold(s, trial)]
    beside = [s for s in scored_probes if s.probe.knowing]
    scored_probes = [s for s in scored_probes if not s.probe.knowing]
    if beside:
        yield hack_finding(
            "warning",
            beside,
            "the right answer beside a wrong one earned as much as alone",
            "Compare the answer whole; take off for what is too much.",
            trial,
            "reward-wrong-passes",
        )
    if scored_probes:
        yield hack_finding(
            "blocker",
            scored_probes,
            f"{count(len(scored_probes), 'answer')} only half right earned as much as the right one",
            "Compare the answer whole; for lists, take off for what is missing and for what is too much.",
            trial,
            "reward-wrong-passes",
        )


def order_ignored(trial: Trial) -> Iterator[Finding]:
    """Where the prompt demands an order, the right items in another order should earn less.

    A blocker if the prompt holds all items, because their order is then all that is asked. Otherwise a warning, because
    a model must know the items. Some tasks have one row or equal rows, so that most tasks must show this.
    """
    tried = [s for s in trial.of(Family.HALF_RIGHT) if s.probe.variant == OTHER_ORDER and s.reward is not None]
    paid = [s for s in tried if earned_as_gold(s, trial)]
    if len(paid) < _FEWEST_ORDERS or len(paid) < _ORDERS_SHARE * len(tried):
        return
    given = [s for s in paid if not s.probe.knowing]
    yield hack_finding(
        "blocker" if len(given) > len(paid) / 2 else "warning",
        given or paid,
        f"the prompt demands an order, and the right items in the opposite order earned as much on {len(paid)} of "
        f"{count(len(tried), 'task')}",
        "Compare lists and rows in their order (no sorted() or set() around both sides), or do not ask for an order.",
        trial,
        "reward-wrong-passes",
    )


def _unit(answer: str) -> str:
    """Return the unit of an answer such as `1.5 kg`; empty if it has none."""
    measured = number_and_unit(answer)
    return measured[1] if measured is not None else ""


def unit_ignored(trial: Trial) -> Iterator[Finding]:
    """The unit of an answer should count, because the same number in another unit is another quantity.

    A blocker in two cases: the number without a unit is refused, so that a unit is required but any unit is accepted,
    or golds have different units, so that the unit is part of the answer. Otherwise a warning: a model must know the
    number, and learns only to write any unit.
    """
    scored_probes = [s for s in trial.of(Family.OTHER_UNIT) if earned_as_gold(s, trial)]
    bare = {s.probe.row for s in trial.of(Family.UNITLESS) if earned_as_gold(s, trial)}
    units: set[str] = set()
    if trial.style is not None:  # The gold itself may be stated without a unit.
        texts = {gold.row: trial.style.answer_text(gold) for gold in trial.style.golds.golds}
        bare |= {s.probe.row for s in scored_probes if s.probe.row in texts and not _unit(texts[s.probe.row])}
        units = {_unit(text) for gold in trial.style.golds.golds for text in gold.forms} - {""}
    if scored_probes:
        needed = scored_probes if len(units) > 1 else [s for s in scored_probes if s.probe.row not in bare]
        yield hack_finding(
            "blocker" if needed else "warning",
            needed or scored_probes,
            "the unit of an answer is not read: another one earned as much as the right one",
            "Compare the unit too, or say in the prompt which one is meant and ask for the number alone.",
            trial,
            "reward-unit-ignored",
        )


PARTLY_RIGHT_RULES: tuple[RewardRule, ...] = (
    truncated_answer,
    crossed_answer,
    half_right_answer,
    order_ignored,
    unit_ignored,
)
