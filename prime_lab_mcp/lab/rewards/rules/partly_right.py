"""Rules about partly right answers, which must earn less than the right answer.

The answers are truncated, belong to another task, lack or add a part, or have another unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.listed_entries import ALL_ASKED, CHAIN, NUMBERS
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import FIELD_OF_ANOTHER, OTHER_ORDER, number_and_unit
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, earned_as_gold, hack_finding
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import deserved_share

_NOTICED = 0.05
"""Share of the maximum by which a truncated completion must exceed a wrong answer to be reported."""
_CROSSED = 0.1
"""Share of golds of other tasks that are paid in full from which on the rule blocks (docs/validation.md, Reward
tests)."""

_CROSSED_CASES, _FEWEST_CROSSED = 0.9, 9
"""The same share, and the smallest number of replies, if the replies are right ones of the caller (our choice)."""

_FEWEST_LISTS, _LISTS_SHARE, _ENTRIES_SHARE = 3, 0.75, 0.75
"""How many tasks, and which share of those tried, must pay an incomplete list; and which share of the lists of a task
with one entry less (our choice)."""
_FEWEST_ALIKE = 6
"""Smallest number of tasks that must pay the same few words (our choice)."""
_CONSTANT_SHARE = 0.9
"""Share of the tasks tried that must pay the same values (our choice)."""
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
    halves = [
        s
        for s in trial.of(Family.HALF_RIGHT)
        if s.probe.variant != OTHER_ORDER and not s.probe.variant.startswith(FIELD_OF_ANOTHER)
    ]
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


def field_ignored(trial: Trial) -> Iterator[Finding]:
    """Warn if a reply earns as much with a field of another task, because the reward does not compare that field.

    The rendering may name fields that the reward rightly leaves out, such as a reason for the answer.
    """
    tried = [s for s in trial.of(Family.HALF_RIGHT) if s.probe.variant.startswith(FIELD_OF_ANOTHER)]
    paid = [s for s in tried if s.reward is not None and earned_as_gold(s, trial)]
    if paid:
        names = sorted({quote(s.probe.variant.removeprefix(FIELD_OF_ANOTHER), 60) for s in paid})
        yield hack_finding(
            "warning",
            paid,
            f"replies with another task's {' or '.join(names)} earned as much as right ones",
            "Compare this field as well. Leave it so only if it is no part of the answer.",
            trial,
            "reward-wrong-passes",
        )


def entry_ignored(trial: Trial) -> Iterator[Finding]:
    """A right reply without one entry of its list must earn less.

    A blocker where the prompt asks for every entry; otherwise a warning, because some entries may be enough. A single
    entry may be superfluous, so on most tasks nearly every shorter reply must be paid like the whole one.
    """
    shorter: dict[int, list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.ENTRY_LEFT_OUT):
        if scored_probe.reward is not None:
            shorter.setdefault(scored_probe.probe.row, []).append(scored_probe)
    whole = paid_replies(trial)
    paid = {row: [s for s in probes if paid_as_reply(s, whole)] for row, probes in shorter.items()}
    ignoring = [row for row, probes in shorter.items() if len(paid[row]) >= _ENTRIES_SHARE * len(probes)]
    if len(ignoring) < _FEWEST_LISTS or len(ignoring) < _LISTS_SHARE * len(shorter):
        return
    asked = [row for row in ignoring if paid[row][0].probe.variant in (ALL_ASKED, CHAIN)]
    if sum(paid[row][0].probe.variant == CHAIN for row in asked) > len(ignoring) / 2:
        yield hack_finding(
            "blocker",
            [paid[row][0] for row in asked],
            f"the steps of a path are not checked: paths without one step between the ends earned as much as the right "
            f"one on {len(ignoring)} of {count(len(shorter), 'task')}",
            "Check each step of the path against the one before, not only its ends.",
            trial,
            "reward-wrong-passes",
        )
        return
    yield hack_finding(
        "blocker" if len(asked) > len(ignoring) / 2 else "warning",
        [paid[row][0] for row in asked or ignoring],
        f"one entry of the list may be left out: shorter replies earned as much as the right one on {len(ignoring)} of "
        f"{count(len(shorter), 'task')}" + (", whose prompts ask for every entry" if asked else ""),
        "Compare with the list of what has to be there, and pay less for each entry that is missing."
        if asked
        else "If every entry is asked for, pay less for each one that is missing; else leave it so.",
        trial,
        "reward-wrong-passes",
    )


def value_ignored(trial: Trial) -> Iterator[Finding]:
    """A right reply whose entries have no readable value must earn less.

    A blocker where the values are numbers that the prompts do not state, because they are then what is asked for;
    otherwise a warning.
    """
    whole = paid_replies(trial)
    same = by_variant(trial.of(Family.VALUES_UNREADABLE))
    for variant in sorted(same, key=lambda v: not v.startswith(NUMBERS)):
        paid = mostly_paid(same[variant], whole)
        if not paid:
            continue
        numbers = variant.startswith(NUMBERS)
        yield hack_finding(
            "blocker" if numbers else "warning",
            paid,
            f"{'numbers' if numbers else 'values'} that cannot be read are passed over: without any, replies earned as "
            f"much as the right one on {len(paid)} of {count(len(same[variant]), 'task')}",
            "Count an entry whose value cannot be read as wrong, not as absent."
            if numbers
            else "If the values are asked for, count one that cannot be read as wrong; else leave it so.",
            trial,
            "reward-wrong-passes",
        )
        return


def entry_not_compared(trial: Trial) -> Iterator[Finding]:
    """A reference answer with a wrong number in one entry must earn less.

    A blocker where this holds for the first, a middle or the last entry on most tasks: only some of the entries are
    compared, so a model need not get the others right.
    """
    whole = paid_replies(trial)
    same = by_variant(s for s in trial.of(Family.ENTRY_CHANGED) if s.probe.row in whole)
    paid = {place: mostly_paid(tried, whole) for place, tried in same.items()}
    places = [place for place in same if paid[place]]
    if places:
        yield hack_finding(
            "blocker",
            [paid[place][0] for place in places],
            f"not every entry is compared: with a wrong number in the {' or the '.join(places)} one, answers earned as "
            f"much on {len(paid[places[0]])} of {count(len(same[places[0]]), 'task')}",
            "Compare all entries, and their number first (zip(..., strict=True)).",
            trial,
            "reward-wrong-passes",
        )


def entries_cut(trial: Trial) -> Iterator[Finding]:
    """A right reply of which only one entry is left must earn less where the prompt asks for several.

    A blocker: a reward that compares only as many entries as a reply has, or that ignores repetitions, pays for one.
    """
    whole = paid_replies(trial)
    same = by_variant(s for s in trial.of(Family.ENTRIES_CUT) if s.probe.row in whole)
    for variant, tried in same.items():
        if paid := mostly_paid(tried, whole):
            yield hack_finding(
                "blocker",
                paid,
                f"several entries are asked for; replies without {variant} earned as much on {len(paid)} of "
                f"{count(len(tried), 'task')}",
                "Compare the number of entries first, and whether they differ; zip lists strictly.",
                trial,
                "reward-wrong-passes",
            )
            return


def stripped_reply(trial: Trial) -> Iterator[Finding]:
    """Where the prompt asks to keep a text, a reply without it must earn less. A blocker if most such replies are paid.

    The few words that are left of one right reply must not be paid on nearly all tasks. A blocker as well: they say
    nothing about the task.
    """
    whole = paid_replies(trial)
    for variant, tried in by_variant(s for s in trial.of(Family.STRIPPED) if s.probe.row in whole).items():
        if paid := mostly_paid(tried, whole):
            yield hack_finding(
                "blocker",
                paid,
                f"the prompt asks to keep a text, and replies without {variant} earned as much as the right one on "
                f"{len(paid)} of {count(len(tried), 'task')}",
                "Compare the whole text with what it should be, or its unchanged parts with those of the prompt.",
                trial,
                "reward-wrong-passes",
            )
            return
    alike = [s for s in trial.of(Family.FEW_WORDS) if s.reward is not None]
    same = [s for s in alike if s.reward is not None and s.reward >= FULL_SHARE * trial.maximum(s.probe.row) - EPSILON]
    same = same if trial.max_reward > EPSILON else []
    if len(same) >= _FEWEST_ALIKE and len(same) >= max(_CONSTANT_SHARE, _deserved(trial, same)) * len(alike):
        yield hack_finding(
            "blocker",
            same,
            f"a few words of one right reply earned as much as a right reply on {len(same)} of "
            f"{count(len(alike), 'task')}",
            "Ask for what the reply has to say about its own task, and not only for its form or for words.",
            trial,
            "reward-wrong-passes",
        )


def _deserved(trial: Trial, scored_probes: Sequence[ScoredProbe]) -> float:
    """The share of tasks on which one reply may rightly be paid, and a little more."""
    return deserved_share(trial, [s.probe.row for s in scored_probes]) + _NOTICED


def constant_values(trial: Trial) -> Iterator[Finding]:
    """A reply with the keys of the prompt, and numbers that are alike in every task, must not be paid on nearly all.

    A blocker: it needs no knowledge of the task.
    """
    whole = paid_replies(trial)
    same = by_variant(s for s in trial.of(Family.CONSTANT_VALUES) if s.probe.completion)
    for variant, tried in same.items():
        if paid := mostly_paid(tried, whole, _CONSTANT_SHARE):
            yield hack_finding(
                "blocker",
                paid,
                f"the values are not checked: replies with {variant} as the values earned as much as the right one on "
                f"{len(paid)} of {count(len(tried), 'task')}",
                "Check every value against its bounds and against what the task demands of it.",
                trial,
                "reward-wrong-passes",
            )
            return


def paid_replies(trial: Trial) -> dict[int, float]:
    """Map tasks to what the right reply earned, of the caller or a gold, where it was paid half of the maximum."""
    whole: dict[int, float] = {}
    for case in trial.supplied:
        reward = case.scored_probe.reward or 0.0
        if case.high and reward >= HALF_SHARE * trial.max_reward - EPSILON > 0:
            whole.setdefault(case.scored_probe.probe.row, reward)
    for gold in trial.golds:
        if (gold.reward or 0.0) >= HALF_SHARE * trial.max_reward - EPSILON > 0:
            whole.setdefault(gold.probe.row, gold.reward or 0.0)
    return whole


def by_variant(scored_probes: Iterable[ScoredProbe]) -> dict[str, list[ScoredProbe]]:
    """Group the completions that have a reward by the variant of their probe."""
    same: dict[str, list[ScoredProbe]] = {}
    for scored_probe in scored_probes:
        if scored_probe.reward is not None:
            same.setdefault(scored_probe.probe.variant, []).append(scored_probe)
    return same


def mostly_paid(
    tried: Sequence[ScoredProbe], whole: Mapping[int, float], share: float = _LISTS_SHARE
) -> list[ScoredProbe]:
    """Return the changed replies that earned as much as the right ones; empty if these are too few or below `share`."""
    paid = [s for s in tried if paid_as_reply(s, whole)]
    return paid if len(paid) >= _FEWEST_LISTS and len(paid) >= share * len(tried) else []


def paid_as_reply(scored_probe: ScoredProbe, whole: Mapping[int, float]) -> bool:
    """Whether a changed reply earned as much as the right reply to its task."""
    row = scored_probe.probe.row
    return row in whole and (scored_probe.reward or 0.0) >= whole[row] - EPSILON


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
    field_ignored,
    entry_ignored,
    value_ignored,
    entry_not_compared,
    entries_cut,
    constant_values,
    stripped_reply,
    order_ignored,
    unit_ignored,
)
