"""Makes lists with a fault that is certain, and scores them in several orders.

Some faults need no knowledge of the task. A list that the reward refuses, although right lists are paid in every
order, is refused in every order: such lists are those of the caller that are expected to earn little, and right ones
with a number that is shifted a little. Two names that the prompt states as a pair, such as two countries with a common
border, have different values in every right list; a list in which they have the same one is wrong. And where real words
are asked for, an invented one is wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from prime_lab_mcp.lab.rewards.list_relations import (
    FEWEST_TASKS,
    RightList,
    fields_of,
    joined,
    lists_of,
    order_is_free,
)
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import MARK, ReplyList
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.worker.description import Row

_ORDERS_OF_CASE, _ORDERS_OF_SHIFTED, _SHIFTED = 24, 6, 6
"""Numbers of orders of a refused case and of a shifted list, and of shifted lists of a task (our choice)."""
_MOST_CASES, _MOST_PAIRS, _MOST_INVENTED = 6, 8, 3
_TIME = re.compile(r"\b([01]?\d|2[0-3]):([0-5]\d)\b")
_INTEGER = re.compile(r"(?<![\w.,:/-])\d{1,6}(?![\w.,:/])")
_MINUTES, _STEPS = (30, -30, 10, -10, 60, 5), (1, -1, 2, -2, 5, 10)
_DIFFERENT = re.compile(
    r"(?i)\bdiffer(?:s|ent\w*)?\b|\bdistinct\b"
    r"|\b(?:no|not|never|nor|without|avoid|cannot)\b[^.\n]{0,60}\b(?:same|share\w*|together|equal|alike)\b"
)
_REAL_WORDS = re.compile(
    r"(?i)\b(?:real|English|German|French|dictionary|existing|valid|proper|common)\s+(?:\w+\s+)?words?\b"
)
_RARE = "qxzjv"


async def score_faulty(
    scorer: Scorer,
    lists: Sequence[RightList],
    placed: Sequence[tuple[Probe, Expected]],
    rows: Sequence[Row],
    ordered: Sequence[ScoredProbe],
) -> tuple[ScoredProbe, ...]:
    """Score faulty lists. `ordered` are the scores of right lists in several orders (list_relations.py)."""
    if len(lists) < FEWEST_TASKS or scorer.gave_up:
        return ()
    certain = [p for right in lists for p in (*_pairs_alike(right), *_invented(right))]
    certain += _every_value(lists)
    scored = await score_probes(scorer, certain)
    free = [right for right in lists if order_is_free(right, ordered)]
    if len(free) < FEWEST_TASKS:
        return scored
    wrong = lists_of({p.row: p.completion for p, expected in placed if _is_low(expected, p)}, set(), rows)[:_MOST_CASES]
    cases = [p for w in wrong for p in _in_orders(w, "refused case", w.listed.entries, _ORDERS_OF_CASE)]
    shifted = [(right, number, entries) for right in free for number, entries in enumerate(_shifted(right))]
    first = [_shifted_probe(right, f"shifted {number}", 0, entries) for right, number, entries in shifted]
    as_listed = await score_probes(scorer, first)
    paid = {r.row: max(s.reward or 0.0 for s in ordered if s.probe.row == r.row) for r in free}
    refused = [
        (right, number, entries)
        for (right, number, entries), s in zip(shifted, as_listed, strict=True)
        if s.reward is not None and s.reward < HALF_SHARE * paid[right.row]
    ]
    more = [
        p
        for right, number, entries in refused
        for p in _in_orders(right, f"shifted {number}", entries, _ORDERS_OF_SHIFTED)
    ]
    return (*scored, *as_listed, *await score_probes(scorer, [*cases, *more]))


def _is_low(expected: Expected, probe: Probe) -> bool:
    """Whether a single reply is expected to earn little."""
    low = expected == "low" or (isinstance(expected, int | float) and expected <= EPSILON)
    return low and [m.get("role") for m in probe.messages] == ["assistant"]


def _in_orders(right: RightList, variant: str, entries: Sequence[Any], orders: int) -> Iterator[Probe]:
    """Yield a list as it is, with every second entry first, and in random orders."""
    if right.listed.kind == "object":
        return
    whole = list(entries)
    half = (len(whole) + 1) // 2
    woven = [
        entry for pair in zip(whole[:half], [*whole[half:], None], strict=False) for entry in pair if entry is not None
    ]
    tried = [whole, [*whole[::2], *whole[1::2]], woven]
    chance = random.Random(f"{right.row} {variant}")
    tried += [chance.sample(whole, len(whole)) for _ in range(orders - len(tried))]
    for place, order in enumerate(tried):
        yield _shifted_probe(right, variant, place, order)


def _shifted_probe(right: RightList, variant: str, place: int, entries: Sequence[Any]) -> Probe:
    draft = Draft(Family.REORDERED_CHANGED, right.listed.text(entries), variant)
    return draft.probe(f"{variant}/{right.row}/{place}", right.row)


def _shifted(right: RightList) -> Iterator[list[Any]]:
    """Yield lists in which the last time or number of one line is a little earlier or later."""
    if right.listed.kind != "lines":
        return
    entries = list(right.listed.entries)
    changes = [(at, step) for at in range(len(entries)) for step in range(len(_MINUTES))]
    random.Random(right.row).shuffle(changes)
    found = 0
    for at, step in changes:
        new = _later(entries[at], _MINUTES[step], _STEPS[step])
        if new is not None and found < _SHIFTED:
            found += 1
            yield [*entries[:at], new, *entries[at + 1 :]]


def _later(entry: str, minutes: int, more: int) -> str | None:
    """Return a line with its last time, else its last whole number, shifted; None if it has none."""
    mark = MARK.match(entry)
    start = mark.end() if mark else 0
    times = list(_TIME.finditer(entry, start))
    if times:
        at = times[-1]
        total = (60 * int(at[1]) + int(at[2]) + minutes) % 1440
        return f"{entry[: at.start()]}{total // 60:02d}:{total % 60:02d}{entry[at.end() :]}"
    numbers = list(_INTEGER.finditer(entry, start))
    if not numbers or int(numbers[-1][0]) + more < 0:
        return None
    last = numbers[-1]
    return f"{entry[: last.start()]}{int(last[0]) + more}{entry[last.end() :]}"


def _pairs_alike(right: RightList) -> Iterator[Probe]:
    """Yield lists in which two names have the same value that the prompt states as a pair and that must differ."""
    values = _values(right.listed)
    if not _DIFFERENT.search(right.prompt) or len(values) < len(right.listed.entries):
        return
    pairs = stated_pairs(right.prompt, [name for name, _ in values])
    held = dict(values)
    if not pairs or any(held[a] == held[b] for a, b in pairs):
        return
    both = [pair for a, b in pairs[:_MOST_PAIRS] for pair in ((a, b), (b, a))]
    for number, (a, b) in enumerate(both):
        alike = _with_value(right.listed, b, held[a])
        yield Draft(Family.PAIR_ALIKE, right.listed.text(alike)).probe(f"alike/{right.row}/{number}", right.row)


def stated_pairs(prompt: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of these names that a prompt states, such as `Ulm-Aar` or `Ulm borders Aar`; each pair once.

    Names with `and` between them may be the end of a list.
    """
    either = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    mark = r"(?:\s*(?:-|\N{EN DASH}|--|<->)\s*|\s+(?:borders|conflicts with|clashes with|vs\.?|touches)\s+)"
    found = re.findall(rf"(?<![\w-])({either}){mark}({either})(?![\w-])", prompt)
    return list(dict.fromkeys((a, b) for a, b in found if a != b))


def _values(listed: ReplyList) -> list[tuple[str, Any]]:
    """Return the names and values of a list of pairs; only those that have both."""
    if listed.kind == "object":
        return [(str(name), value) for name, value in listed.entries]
    split = [fields_of(entry) for entry in listed.entries if isinstance(entry, str)]
    return [(s[0][0].strip(), s[0][1]) for s in split if s is not None and len(s[0]) == 2]


def _with_value(listed: ReplyList, name: str, value: Any) -> list[Any]:
    """Return the entries of a list of pairs with another value of one name."""
    if listed.kind == "object":
        return [(key, value if key == name else held) for key, held in listed.entries]
    entries = []
    for entry in listed.entries:
        split = fields_of(entry)
        own = split is not None and split[0][0].strip() == name
        entries.append(joined([split[0][0], value], split[1]) if own and split is not None else entry)
    return entries


EVERY_VALUE = "every value for every entry"
_MOST_VALUES = 8


def _every_value(lists: Sequence[RightList]) -> list[Probe]:
    """Return lists that give each name every value that right lists have, one line each, if these are a few words."""
    split = [(right, _before_values(right.listed)) for right in lists]
    held = [(right, pairs) for right, pairs in split if pairs]
    every = list(dict.fromkeys(value for _, pairs in held for _, value in pairs))
    plain = all(re.fullmatch(r"[^\W\d][\w -]{0,30}", value) for value in every)
    stated = all(re.search(rf"(?i)\b{re.escape(v)}\b", right.prompt) for right, _ in held for v in every)
    if not (2 <= len(every) <= _MOST_VALUES and plain and stated):
        return []
    return [
        Draft(
            Family.CONSTANT_VALUES,
            right.listed.text([before + value for before, _ in pairs for value in every]),
            EVERY_VALUE,
        ).probe(f"every/{right.row}", right.row)
        for right, pairs in held
    ]


def _before_values(listed: ReplyList) -> list[tuple[str, str]]:
    """Return what stands before the value of each line, a name or a number, and the value; empty for other lists."""
    pairs = []
    for entry in listed.entries if listed.kind == "lines" else ():
        split, mark = fields_of(entry), MARK.match(entry)
        if split is not None and len(split[0]) == 2:
            pairs.append((entry[: len(entry) - len(split[0][1])], split[0][1].strip()))
        elif split is None and mark is not None and re.search(r"\d", mark[0]):
            pairs.append((mark[0], entry[mark.end() :].strip()))
        else:
            return []
    return pairs


def _invented(right: RightList) -> Iterator[Probe]:
    """Yield chains of words with an invented word between two that differ in one letter."""
    words = [str(entry).strip() for entry in right.listed.entries]
    if not _REAL_WORDS.search(right.prompt) or not all(re.fullmatch(r"[A-Za-z]{3,12}", w) for w in words):
        return
    number = 0
    for at, (one, two) in enumerate(pairwise(words)):
        differ = [n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b]
        if len(one) != len(two) or len(differ) != 1 or number >= _MOST_INVENTED:
            continue
        place = differ[0]
        letter = next(c for c in _RARE if c not in one.lower() + two.lower())
        invented = one[:place] + (letter.upper() if one.isupper() else letter) + one[place + 1 :]
        longer = [*right.listed.entries[: at + 1], invented, *right.listed.entries[at + 1 :]]
        yield Draft(Family.INVENTED_WORD, right.listed.text(longer)).probe(f"invented/{right.row}/{number}", right.row)
        number += 1
