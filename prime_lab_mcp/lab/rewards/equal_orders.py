"""Finds other orders that are as right as a right one, from what a prompt says comes before what.

A task that asks for an order in which each entry comes after those that it needs often has several. A reward that
compares the reply with one stored order refuses the others, and which of them a model gives is chance. Which of two
entries comes first is read from sentences such as `charts needs auth and dates`; the right order itself tells which
way round a word such as `needs` is meant. Where a sentence is not understood, no order is tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from prime_lab_mcp.lab.datasets.task_golds import whole_prompt
from prime_lab_mcp.lab.rewards.case_skeletons import right_replies
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import listed_in
from prime_lab_mcp.lab.worker.description import Row

OTHER_ORDER = "another order that the prompt allows as well"
"""The variant of these replies."""
_FEWEST_ENTRIES, _MOST_ENTRIES, _FEWEST_SENTENCES, _MOST_ORDERS, _MOST_TASKS = 4, 40, 2, 5, 8
"""Numbers of entries of an order, of sentences that say what comes first, and of orders and tasks that are tried (our
choice). Of several orders at least one is right even if the prompt demands something that no sentence here tells."""
_ANY_ORDER = re.compile(
    r"(?i)\b(?:an|any|some|(?:a|one|any) (?:valid|possible|correct|feasible|legal|working|suitable|sensible))\s+"
    r"(?:\w+\s+)?(?:order|ordering|sequence)\b"
)
_TELLS_APART = re.compile(
    r"(?i)\b(?:alphabet\w*|lexicograph\w*|ties?|tied|break\w*|prefer\w*|unique\w*|only (?:one|possible)|earliest|"
    r"latest|smallest|largest|longest|shortest|fewest|cheap\w*|fast\w*|minimum|minimal|maxim\w+|optim\w+|priorit\w+|"
    r"urgent\w*|immediate\w*|directly|adjacent|next to|right (?:after|before)|stable|breadth|depth|"
    r"as (?:early|late|soon)|deadlines?|minutes?|hours?|days?|costs?)\b"
)
"""Words of prompts that may tell two orders apart."""
_RELATION = re.compile(
    r"(?i)\b(needs?|requires?|depends? on|after|before|follows?|precedes?|waits? for|builds? on|uses?|imports?|"
    r"presupposes?)\b"
)
_UNCLEAR = re.compile(r"(?i)\b(?:or|nor|not|never|unless|except|either|if|only|than|without|\d+)\b")
"""Words of a sentence that make what comes first unclear."""


def equal_order_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return right replies with other orders, several for each task whose order has equals.

    `placed` are replies to tasks with what each is expected to earn.
    """
    prompts = {row.index: row for row in rows}
    found: list[Probe] = []
    tasks = 0
    for row, reply in right_replies(placed).items():
        others = _other_replies(whole_prompt(prompts[row]), reply) if row in prompts and tasks < _MOST_TASKS else []
        tasks += bool(others)
        found += [
            Draft(Family.OTHER_WAY, other, OTHER_ORDER).probe(f"order/{row}/{n}", row) for n, other in enumerate(others)
        ]
    return found


def _other_replies(prompt: str, reply: str) -> list[str]:
    listed = listed_in(reply)
    if listed is None or listed.kind == "object" or not _ANY_ORDER.search(prompt) or _TELLS_APART.search(prompt):
        return []
    names = [entry.strip(" .`*").casefold() for entry in listed.shown]
    if not _FEWEST_ENTRIES <= len(names) <= _MOST_ENTRIES or len(set(names)) < len(names):
        return []
    earlier = _earlier(prompt, names)
    if earlier is None:
        return []
    orders = [order for order in _orders(names, earlier) if order != names]
    entries = dict(zip(names, listed.entries, strict=True))
    return [listed.text([entries[name] for name in order]) for order in orders[:_MOST_ORDERS]]


def _earlier(prompt: str, order: Sequence[str]) -> Mapping[str, set[str]] | None:
    """Map each entry to those that must come earlier; None if a sentence about entries is not understood."""
    place = {name: number for number, name in enumerate(order)}
    entry = re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(map(re.escape, sorted(order, key=len, reverse=True)))})(?![\w-])")
    earlier: dict[str, set[str]] = {name: set() for name in order}
    directions: dict[str, bool] = {}
    sentences = 0
    for sentence in re.split(r"\n|;|(?<=[.!?])\s", prompt):
        named = [match[0].casefold() for match in entry.finditer(sentence)]
        if not named or set(named) == set(order):
            continue  # It says nothing of entries, or lists them all.
        first, *others = named
        told = _RELATION.findall(entry.split(sentence, maxsplit=2)[1])
        if not others or first in others or len(told) != 1 or _UNCLEAR.search(entry.sub("", sentence)):
            return None
        needs = all(place[other] < place[first] for other in others)
        if not needs and not all(place[other] > place[first] for other in others):
            return None
        if directions.setdefault(told[0].casefold().rstrip("s"), needs) != needs:
            return None
        for other in others:
            earlier[first if needs else other].add(other if needs else first)
        sentences += 1
    return earlier if sentences >= _FEWEST_SENTENCES else None


def _orders(order: Sequence[str], earlier: Mapping[str, set[str]]) -> list[list[str]]:
    """Return orders in which each entry comes after those that must: one that begins with what came last, and those in
    which two neighbours have changed places."""
    waiting, late = list(order), list[str]()
    while waiting:
        late.append(next(name for name in reversed(waiting) if not earlier[name] & set(waiting)))
        waiting.remove(late[-1])
    swaps = [
        [*order[:n], after, before, *order[n + 2 :]]
        for n, (before, after) in enumerate(pairwise(order))
        if before not in earlier[after]
    ]
    return [late, *swaps]
