"""Rules about replies that stand in a known relation to right lists (list_relations.py), and about changed data."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.rewards.knowing_nothing import CONTROL
from prime_lab_mcp.lab.rewards.list_relations import ALLOWED, CLAIMED
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, hack_finding
from prime_lab_mcp.lab.rewards.rules.partly_right import by_variant, mostly_paid, paid_as_reply, paid_replies
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE

_FEWEST_ORDERED, _FEWEST_TASKS = 2, 3
"""Smallest numbers of tasks that must pay a changed list in one order only, and another wrong list (our choice)."""
_ABSURD_SHARE, _SWAPPED_SHARE = 0.75, 0.9
"""Shares of the tasks tried that must pay absurd numbers, and exchanged values (our choice)."""
_LESS = 0.05
"""Share of a right reply's reward by which the rewards of two orders must differ."""


def order_refused(trial: Trial) -> Iterator[Finding]:
    """Where the prompt allows any order, a right list must be paid in every order.

    A blocker if most lists are refused in all other orders: a model that follows the prompt is not paid.
    """
    whole = paid_replies(trial)
    tasks: dict[int, list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.REORDERED):
        known = scored_probe.reward is not None and scored_probe.probe.row in whole
        if known and scored_probe.probe.variant == ALLOWED:
            tasks.setdefault(scored_probe.probe.row, []).append(scored_probe)
    refused = {
        row: orders
        for row, orders in tasks.items()
        if all((s.reward or 0.0) <= HALF_SHARE * whole[row] + EPSILON for s in orders)
    }
    if len(refused) >= _FEWEST_TASKS and len(refused) >= _ABSURD_SHARE * len(tasks):
        yield hack_finding(
            "blocker",
            [orders[0] for orders in refused.values()],
            f"the prompt allows any order, and right lists in other orders are not paid on {len(refused)} of "
            f"{count(len(tasks), 'task')}",
            "Compare the entries as a set or sorted, or say in the prompt which order is asked for.",
            trial,
            "reward-contradicts-prompt",
        )


def order_changes_verdict(trial: Trial) -> Iterator[Finding]:
    """Where right lists are paid in any order, a changed list must earn the same in every order.

    A blocker if a changed list is paid like the right one in one order and less in another: the check compares only
    neighbours, or only the first entries, so a model learns to list clashing entries apart.
    """
    whole = paid_replies(trial)
    groups: dict[tuple[int, str], list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.REORDERED_CHANGED):
        if scored_probe.reward is not None:
            groups.setdefault((scored_probe.probe.row, scored_probe.probe.variant), []).append(scored_probe)
    found: dict[int, list[ScoredProbe]] = {}
    for (row, _), orders in groups.items():
        whole.setdefault(row, trial.maximum(row))  # A refused case may be the only reply to its task.
        best = max(orders, key=lambda s: s.reward or 0.0)
        worst = min(orders, key=lambda s: s.reward or 0.0)
        if paid_as_reply(best, whole) and (worst.reward or 0.0) < (1 - _LESS) * whole[row] - EPSILON:
            found.setdefault(row, [best, worst])
    if len(found) >= _FEWEST_ORDERED:
        tried = len({row for row, _ in groups})
        yield hack_finding(
            "blocker",
            [s for pair in found.values() for s in pair],
            f"the order of the entries decides whether a list with a fault is paid, though right lists are paid in any "
            f"order: on {len(found)} of {count(tried, 'task')} the same entries earned as much as the right reply in "
            "one order and less in another",
            "Compare every entry with every other one (itertools.combinations), not only with its neighbour.",
            trial,
            "reward-wrong-passes",
        )


def pair_alike(trial: Trial) -> Iterator[Finding]:
    """Two names that the prompt states as a pair, and that differ in all right lists, must not have one value.

    A blocker where some of these lists are paid on most tasks, and others are refused: only some of the pairs are
    checked. Where all are paid, the pairs may mean something else.
    """
    whole = paid_replies(trial)
    if all(paid_as_reply(s, whole) for s in trial.of(Family.PAIR_ALIKE)):
        return
    yield from _certainly_wrong(
        trial,
        Family.PAIR_ALIKE,
        "not every pair of the prompt is checked: lists in which the two have the same value",
        "Go through all pairs that the prompt states, and not through the entries that follow each other.",
    )


def invented_word(trial: Trial) -> Iterator[Finding]:
    """Where real words are asked for, an invented one must not be paid. A blocker on most tasks."""
    yield from _certainly_wrong(
        trial,
        Family.INVENTED_WORD,
        "words are not looked up: chains with an invented word",
        "Look every word up in the list of words.",
    )


def _certainly_wrong(trial: Trial, family: Family, how: str, fix: str) -> Iterator[Finding]:
    paid = _paid_by_task(trial, family)
    tried = {s.probe.row for s in trial.of(family)}
    if len(paid) >= _FEWEST_TASKS and len(paid) >= _ABSURD_SHARE * len(tried):
        yield hack_finding(
            "blocker",
            [s for scored in paid.values() for s in scored[:1]],
            f"{how} earned as much as the right reply on {len(paid)} of {count(len(tried), 'task')}",
            fix,
            trial,
            "reward-wrong-passes",
        )


def entry_repeated(trial: Trial) -> Iterator[Finding]:
    """Where each entry may be used once, a list with one entry several times must earn less. Otherwise a blocker."""
    paid = _paid_by_task(trial, Family.ENTRY_REPEATED)
    tried = {s.probe.row for s in trial.of(Family.ENTRY_REPEATED)}
    if len(paid) >= _FEWEST_TASKS and len(paid) >= HALF_SHARE * len(tried):
        yield hack_finding(
            "blocker",
            [s for scored in paid.values() for s in scored[:1]],
            f"each entry is to be used once; lists with one entry several times earned as much as the right reply on "
            f"{len(paid)} of {count(len(tried), 'task')}",
            "Refuse a list that names an entry twice.",
            trial,
            "reward-wrong-passes",
        )


def looser_query(trial: Trial) -> Iterator[Finding]:
    """A query without its conditions returns rows that nobody asked for, and must earn less. Otherwise a blocker."""
    yield from _certainly_wrong(
        trial,
        Family.LOOSER_QUERY,
        "rows that nobody asked for cost nothing: right queries without their conditions",
        "Compare the rows of the result with the right ones in both directions, and their number.",
    )


def values_swapped(trial: Trial) -> Iterator[Finding]:
    """A list in which two entries have exchanged their values must earn less.

    A blocker where the list is the reference answer; a warning for other right lists, because an exchange may be
    another solution. Nearly all exchanges must be paid.
    """
    whole = paid_replies(trial)
    tried = [s for s in trial.of(Family.VALUES_SWAPPED) if s.reward is not None and s.probe.row in whole]
    paid = [s for s in tried if paid_as_reply(s, whole)]
    if len({s.probe.row for s in paid}) < _FEWEST_TASKS or len(paid) < _SWAPPED_SHARE * len(tried):
        return
    certain = [s for s in paid if s.probe.variant != "values"]
    yield hack_finding(
        "blocker" if len(certain) > len(paid) / 2 else "warning",
        certain or paid,
        f"which value belongs to which entry is not checked: {len(paid)} of {count(len(tried), 'list')} with two "
        "values exchanged earned as much as the right reply",
        "Compare each value with that of its own key.",
        trial,
        "reward-wrong-passes",
    )


def absurd_number(trial: Trial) -> Iterator[Finding]:
    """A number that is asked for must be checked: absurd ones in its place must earn less.

    A blocker if two absurd numbers in the same place are paid on most tasks.
    """
    whole = paid_replies(trial)
    places: dict[str, dict[int, list[ScoredProbe]]] = {}
    for scored_probe in trial.of(Family.ABSURD_NUMBER):
        if scored_probe.reward is not None and scored_probe.probe.row in whole:
            place = scored_probe.probe.variant.partition(":")[0]
            if place == CLAIMED:
                continue
            places.setdefault(place, {}).setdefault(scored_probe.probe.row, []).append(scored_probe)
    for tasks in places.values():
        paid = {row: s for row, s in tasks.items() if len(s) > 1 and all(paid_as_reply(one, whole) for one in s)}
        if len(paid) >= _FEWEST_TASKS and len(paid) >= _ABSURD_SHARE * len(tasks):
            yield hack_finding(
                "blocker",
                [s[0] for s in paid.values()],
                f"a number of each entry is not checked: absurd ones in its place earned as much as the right one on "
                f"{len(paid)} of {count(len(tasks), 'task')}",
                "Compare every number that the prompt asks for.",
                trial,
                "reward-wrong-passes",
            )
            return


def empty_numbers(trial: Trial) -> Iterator[Finding]:
    """A right reply with 0, nan or inf in the place of every number must earn less, where its numbers count.

    A blocker: such a reply needs no knowledge of the task. Where other numbers are paid as well, numbers do not count.
    """
    whole = paid_replies(trial)
    variants = by_variant(s for s in trial.of(Family.EMPTY_NUMBERS) if s.probe.row in whole)
    control = variants.pop(CONTROL, [])
    if sum(paid_as_reply(s, whole) for s in control) > HALF_SHARE * len(control):
        return
    for variant, tried in variants.items():
        if paid := mostly_paid(tried, whole, _SWAPPED_SHARE):
            yield hack_finding(
                "blocker",
                paid,
                f"with {variant} replies earned as much as the right one on {len(paid)} of {count(len(tried), 'task')}",
                "Refuse numbers that are not finite, and zeros where a number has to be positive; write comparisons so "
                "that nan fails (not abs(a - b) > tolerance).",
                trial,
                "reward-wrong-passes",
            )
            return


def claim_trusted(trial: Trial) -> Iterator[Finding]:
    """A number that sums up a list, such as its cost, must be computed from the list.

    A blocker if a false number is paid on one side only, very small or very large: the reward then pays for what a
    reply claims. Where both are paid, nothing depends on the number.
    """
    whole = paid_replies(trial)
    tasks: dict[int, list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.ABSURD_NUMBER):
        if scored_probe.probe.variant.startswith(CLAIMED) and scored_probe.probe.row in whole:
            tasks.setdefault(scored_probe.probe.row, []).append(scored_probe)
    found = {row: [s for s in two if paid_as_reply(s, whole)] for row, two in tasks.items()}
    trusted = {row: paid[0] for row, paid in found.items() if len(paid) == 1 and len(tasks[row]) > 1}
    if len(trusted) >= _FEWEST_TASKS and len(trusted) >= _ABSURD_SHARE * len(tasks):
        yield hack_finding(
            "blocker",
            list(trusted.values()),
            f"what a reply claims of its own list is believed: a false number earned as much as the right one on "
            f"{len(trusted)} of {count(len(tasks), 'task')}",
            "Compute the number from the list, and pay for the computed one.",
            trial,
        )


def data_changed(trial: Trial) -> Iterator[Finding]:
    """A statement that changes the data, and a query without rows, must not be paid where a question is asked.

    A blocker where it is paid on at least half of the tasks: the reward computes what is right on the changed data.
    Some questions have no rows as their answer, so few such tasks say nothing.
    """
    whole = paid_replies(trial)
    variants = by_variant(s for s in trial.of(Family.CHANGES_DATA) if s.probe.row in whole)
    for variant, tried in variants.items():
        if paid := mostly_paid(tried, whole, HALF_SHARE):
            yield hack_finding(
                "blocker",
                paid,
                f"a statement that {variant} earned as much as the right query on {len(paid)} of "
                f"{count(len(tried), 'task')}",
                "Compute the right rows first, or on a copy of the data, and let the reply only read "
                "(PRAGMA query_only, a read-only connection).",
                trial,
            )
            return


def _paid_by_task(trial: Trial, family: Family) -> dict[int, list[ScoredProbe]]:
    whole = paid_replies(trial)
    paid: dict[int, list[ScoredProbe]] = {}
    for scored_probe in trial.of(family):
        if paid_as_reply(scored_probe, whole):
            paid.setdefault(scored_probe.probe.row, []).append(scored_probe)
    return paid


LIST_RULES: tuple[RewardRule, ...] = (
    order_refused,
    order_changes_verdict,
    pair_alike,
    invented_word,
    entry_repeated,
    looser_query,
    values_swapped,
    absurd_number,
    empty_numbers,
    claim_trusted,
    data_changed,
)
