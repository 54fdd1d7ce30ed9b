"""Makes replies that stand in a known relation to right ones whose answer is a list: reordered, mixed up, repeated.

Whether a changed list of a plan or an assignment is right is not known, since any valid one may be. Three relations
need no such knowledge. Where the order of a right list does not matter, it does not matter in a changed list either: a
check that compares only neighbours refuses a clash in one order and pays it in another. Where every entry may be used
once, a list with one entry twice is wrong. And a number that can be replaced by absurd ones is not checked at all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.rewards.listed_entries import SEQUENCE, ends_reply, prompts_by_row, runs_of
from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import FEWEST_ENTRIES, MARK, NUMBER, ReplyList, listed_in
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.description import Row

_MOST_TASKS, FEWEST_TASKS = 6, 2
_MOST_CHANGES = 24
"""Largest number of changed lists of a task; each is scored in `_ORDERS`."""
_MOST_ENTRIES = 40
_SECONDS = 3.0
"""Time for all changed lists; a slow reward scores fewer (our choice)."""
_MOST_COMPLETIONS = 480
_BETWEEN = re.compile(r"(\s*[|;=\t]\s*|\s*,\s+|\s*:\s+|\s+-\s+|\s*->\s*|,|\s+(?:at|in|on|to|by)\s+)")
"""What stands between the fields of a line."""
_ONCE = re.compile(
    r"\b(?:one|a single one|only one) of each\b"
    r"|\b(?:each|every|no)\b[^.\n]{0,40}\b(?:at most once|only once|once|twice)\b"
    r"|\bexactly once\b|\b(?:different|distinct)\b"
    r"|\b(?:no|not|never|without)\b[^.\n]{0,40}\b(?:twice|repeat\w*|more than once)\b",
    re.IGNORECASE,
)
ABSURD = ("987654", "0")
"""Numbers that stand in the place of one number of every entry."""
_MOST_COLUMNS = 4
_FREE = re.compile(
    r"(?i)\b(?:confiden\w+|probab\w+|estimat\w+|score|rating|guess|note|comment|approximate\w*|roughly)\b"
)
"""Words of prompts that ask for a number which a reward may leave unchecked."""


@dataclass(frozen=True, slots=True)
class RightList:
    """The list of a right reply to a task. `of_gold` means that no other reply is right."""

    row: int
    listed: ReplyList
    prompt: str
    of_gold: bool = False


def right_lists(replies: dict[int, str], golds: set[int], rows: Sequence[Row]) -> list[RightList]:
    """Return the lists of right replies, of tasks whose reply ends with one."""
    return lists_of(replies, golds, rows)[:_MOST_TASKS]


def lists_of(replies: Mapping[int, str], golds: set[int], rows: Sequence[Row]) -> list[RightList]:
    """Return the lists of replies to tasks that end with one."""
    prompts = prompts_by_row(rows)
    found = []
    for row, text in replies.items():
        listed = listed_in(text)
        fits = listed is not None and FEWEST_ENTRIES <= len(listed.entries) <= _MOST_ENTRIES and ends_reply(listed)
        if listed is not None and fits and row in prompts:
            found.append(RightList(row, listed, prompts[row], row in golds))
    return found


async def score_relations(scorer: Scorer, lists: Sequence[RightList]) -> tuple[ScoredProbe, ...]:
    """Score lists in other orders; and where no order matters, changed lists in several orders each.

    Lists with an entry twice, and with absurd numbers, are scored as well.
    """
    if len(lists) < FEWEST_TASKS or scorer.gave_up:
        return ()
    first = await score_probes(
        scorer, [p for right in lists for p in (*_orders(right), *_absurd(right), *_swapped(right))]
    )
    each = max(0.2, sum(s.scored.ms for s in first) / max(1, len(first)))
    left = min(_MOST_COMPLETIONS, int(1000 * _SECONDS / each))
    free = [right for right in lists if order_is_free(right, first)]
    more = [list(_changed(right)) for right in (free if len(free) >= FEWEST_TASKS else ())]
    more += [list(_repeated(right)) for right in lists]
    probes = [probe for turn in _in_turns(more) for probe in turn]
    return (*first, *await score_probes(scorer, probes[:left]))


def _in_turns(groups: Sequence[list[list[Probe]]]) -> Iterator[list[Probe]]:
    """Yield the first changed list of each task, then the second one of each, and so on."""
    for number in range(max(map(len, groups), default=0)):
        yield from (group[number] for group in groups if number < len(group))


AS_IT_IS, ALLOWED = "as it is", "in another order, which the prompt allows"
_ANY_ORDER = re.compile(
    r"(?i)\bin any order\b|\border (?:of \w+ )?(?:does not|doesn't|is not|do not) (?:matter|important|count)\b"
    r"|\bregardless of (?:the |their )?order\b"
)


def _orders(right: RightList) -> Iterator[Probe]:
    """Yield a right list as it is, backwards, and in two other orders."""
    if right.listed.kind == "object":
        return
    entries = list(right.listed.entries)
    other = ALLOWED if _ANY_ORDER.search(right.prompt) else "in another order"
    shuffled = [random.Random(seed).sample(entries, len(entries)) for seed in (right.row, right.row + 1)]
    for number, order in enumerate((entries, entries[::-1], *shuffled)):
        variant = AS_IT_IS if number == 0 else other
        yield Draft(Family.REORDERED, right.listed.text(order), variant).probe(f"order/{right.row}/{number}", right.row)


def order_is_free(right: RightList, scored: Sequence[ScoredProbe]) -> bool:
    """Whether a right list is paid, and equally in all orders."""
    rewards = [s.reward for s in scored if s.probe.family is Family.REORDERED and s.probe.row == right.row]
    known = [r for r in rewards if r is not None]
    return len(known) == len(rewards) > 1 and min(known) > EPSILON and max(known) - min(known) < EPSILON


def fields_of(entry: Any) -> tuple[list[str], list[str]] | None:
    """Return the fields of a line and what stands between them; None for a line with one field."""
    mark = MARK.match(entry) if isinstance(entry, str) else None
    body = entry[mark.end() if mark else 0 :] if isinstance(entry, str) else ""
    pieces = _BETWEEN.split(body)
    return (pieces[::2], [mark[0] if mark else "", *pieces[1::2]]) if len(pieces) > 1 else None


def _changed(right: RightList) -> Iterator[list[Probe]]:
    """Yield lists in which one entry has values of another one, each in several orders."""
    changes = list(_moved(right.listed))
    random.Random(right.row).shuffle(changes)
    changes.sort(key=lambda change: -change[3])
    for number, (at, other, entry, _) in enumerate(changes[:_MOST_CHANGES]):
        rest = [e for n, e in enumerate(right.listed.entries) if n not in (at, other)]
        beside = right.listed.entries[other]
        orders = ([entry, beside, *rest], [entry, *rest, beside], [beside, *rest, entry])
        yield [
            Draft(Family.REORDERED_CHANGED, right.listed.text(order), f"change {number}").probe(
                f"changed/{right.row}/{number}/{place}", right.row
            )
            for place, order in enumerate(orders)
        ]


def _moved(listed: ReplyList) -> Iterator[tuple[int, int, Any, int]]:
    """Yield (place, other place, entry, number of fields) for entries with some fields of another entry.

    The first field, which names the entry, stays.
    """
    places = [(a, b) for a in range(len(listed.entries)) for b in range(len(listed.entries)) if a != b]
    if all(isinstance(entry, dict) for entry in listed.entries):
        for a, b in places:
            one, two = listed.entries[a], listed.entries[b]
            keys = [key for key in list(one)[1:] if key in two and two[key] != one[key]]
            for some in ([key] for key in keys) if len(keys) < 2 else (*([key] for key in keys), keys):
                yield a, b, {**one, **{key: two[key] for key in some}}, len(some)
        return
    split = [fields_of(entry) for entry in listed.entries]
    if any(s is None for s in split) or len({len(s[0]) for s in split if s is not None}) != 1:
        return
    for a, b in places:
        fields, between = split[a] or ([], [])
        others = (split[b] or ([], []))[0]
        columns = [n for n in range(1, len(fields)) if fields[n] != others[n]]
        for some in ([n] for n in columns) if len(columns) < 2 else (*([n] for n in columns), columns):
            new = [others[n] if n in some else field for n, field in enumerate(fields)]
            yield a, b, joined(new, between), len(some)


def joined(fields: Sequence[str], between: Sequence[str]) -> str:
    return "".join(mark + field for mark, field in zip(between, fields, strict=True))


def _repeated(right: RightList) -> Iterator[list[Probe]]:
    """Yield lists with one entry in the place of another one, or alone several times, if each may be used once.

    That is so where the prompt says it, and where all names of a list of the prompt are to be put in order.
    """
    entries = [MARK.sub("", e).strip() if isinstance(e, str) else "" for e in right.listed.entries]
    if right.listed.kind == "object" or not all(entries) or len({e.casefold() for e in entries}) < len(entries):
        return
    if not (_ONCE.search(right.prompt) or _puts_in_order(right.prompt, entries)):
        return
    whole = list(right.listed.entries)
    texts = [[*whole[:n], e, *whole[n + 1 :]] for n in range(len(whole)) for e in whole if e != whole[n]]
    texts += [[e] * times for times in range(2, len(whole) + 4) for e in whole]
    random.Random(right.row).shuffle(texts)
    for number, text in enumerate(texts[: 2 * _MOST_CHANGES]):
        draft = Draft(Family.ENTRY_REPEATED, right.listed.text(text), "an entry twice")
        yield [draft.probe(f"twice/{right.row}/{number}", right.row)]


def _puts_in_order(prompt: str, entries: Sequence[str]) -> bool:
    """Whether a prompt asks for an order, and a list is all names of a list of the prompt."""
    names = {entry.casefold() for entry in entries}
    return SEQUENCE.search(prompt) is not None and any(
        len(run) == len(entries) and {name.casefold() for name in run} == names for run in runs_of(prompt)
    )


def _swapped(right: RightList) -> Iterator[Probe]:
    """Yield lists of pairs in which two entries have exchanged their values."""
    entries = list(right.listed.entries)
    for number, (a, b) in enumerate(((0, 1), (0, len(entries) - 1), (len(entries) // 2, len(entries) - 1))):
        exchanged = _exchanged(right.listed, entries[a], entries[b])
        if exchanged is not None and a != b:
            new = list(entries)
            new[a], new[b] = exchanged
            variant = "values of a reference answer" if right.of_gold else "values"
            yield Draft(Family.VALUES_SWAPPED, right.listed.text(new), variant).probe(
                f"swapped/{right.row}/{number}", right.row
            )


def _exchanged(listed: ReplyList, one: Any, two: Any) -> tuple[Any, Any] | None:
    """Return two entries with each other's values; None if they have none, or equal ones."""
    if listed.kind == "object":
        return ((one[0], two[1]), (two[0], one[1])) if one[1] != two[1] else None
    if isinstance(one, dict) and isinstance(two, dict):
        keys = [key for key in list(one)[1:] if key in two and one[key] != two[key]]
        return ({**one, **{k: two[k] for k in keys}}, {**two, **{k: one[k] for k in keys}}) if keys else None
    left, right = fields_of(one), fields_of(two)
    if left is None or right is None or len(left[0]) != len(right[0]) or left[0][1:] == right[0][1:]:
        return None
    return joined([left[0][0], *right[0][1:]], left[1]), joined([right[0][0], *left[0][1:]], right[1])


def _absurd(right: RightList) -> Iterator[Probe]:
    """Yield lists in which one number of every entry is absurd, for each number of a line and two absurd ones.

    Only numbers that the prompt does not state count, because they are what is asked for.
    """
    if right.listed.kind != "lines" or _FREE.search(right.prompt):
        return
    numbers = [list(NUMBER.finditer(e, m.end() if (m := MARK.match(e)) else 0)) for e in right.listed.entries]
    if len({len(found) for found in numbers}) != 1:
        return
    for column, found in enumerate(list(zip(*numbers, strict=True))[:_MOST_COLUMNS]):
        stated = [re.search(rf"(?<![\w.]){re.escape(n[0])}(?!\w|\.\d)", right.prompt) is not None for n in found]
        if 2 * sum(stated) > len(stated) or not all(re.fullmatch(r"\d{1,5}", n[0]) for n in found):
            continue
        values = [int(n[0]) for n in found]
        if not any(values) or values in (list(range(len(values))), list(range(1, len(values) + 1))):
            continue  # The last two only count the lines.
        for text in ABSURD:
            pairs = zip(right.listed.entries, found, strict=True)
            entries = [entry[: n.start()] + text + entry[n.end() :] for entry, n in pairs]
            yield Draft(Family.ABSURD_NUMBER, right.listed.text(entries), f"number {column + 1}: {text}").probe(
                f"absurd/{right.row}/{column}/{text}", right.row
            )


CLAIMED = "claimed number"
_CLAIM = re.compile(r"(?m)^[ \t*_]*[A-Za-z][A-Za-z ]{1,30}[:=][ \t*_]*(\d{1,7})(?![\d.,:/-])[^\n\d]{0,20}$")
_ITEMS = re.compile(r"(?m)^.*?[^\n,>]{1,40}(?:(?:,|->|\u2192| - )[^\n,>]{1,40}){2,}$|(?:^.+\n){3,}")


def claim_probes(replies: Mapping[int, str], rows: Sequence[Row]) -> list[Probe]:
    """Return right replies whose number that sums up their list, such as `Length: 31`, is very small or very large.

    Replies count whose last line of this form has a number that the prompt does not state.
    """
    prompts = prompts_by_row(rows)
    probes: list[Probe] = []
    for row, text in list(replies.items())[:_MOST_TASKS]:
        claims = list(_CLAIM.finditer(text))
        rest = text[: claims[-1].start()] + text[claims[-1].end() :] if claims else ""
        if not claims or not _ITEMS.search(rest) or int(claims[-1][1]) == 0:
            continue
        if re.search(rf"(?<![\w.]){claims[-1][1]}(?!\w|\.\d)", prompts.get(row, "")):
            continue
        start, end = claims[-1].span(1)
        for claimed in ABSURD:
            changed = f"{text[:start]}{claimed}{text[end:]}"
            draft = Draft(Family.ABSURD_NUMBER, changed, f"{CLAIMED}: {claimed}")
            probes.append(draft.probe(f"claimed/{row}/{claimed}", row))
    return probes
