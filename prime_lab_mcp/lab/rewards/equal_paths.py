"""Finds other ways that are as short as a right one, over the pairs of places that a prompt lists or over a grid.

A task that asks for a shortest way often has several. A reward that compares the reply with one stored way refuses the
others, and which of them a model gives is chance. The right way is a reply of the caller, or the gold of a task. It
counts only if the prompt lists each of its steps as a pair, or if its places are the squares of a grid and each step
leads to the next square. The prompt must state no lengths and nothing else that tells ways apart. A grid that is drawn
is not read, and a way over a grid avoids the squares that the prompt names, which may be blocked.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from prime_lab_mcp.lab.datasets.task_golds import prompt_of, whole_prompt
from prime_lab_mcp.lab.rewards.case_skeletons import right_replies
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Row

OTHER_WAY = "another way that is as short"
"""The variant of these replies."""
_FEWEST_STEPS, _FEWEST_PAIRS, _MOST_PLACES, _MOST_WAYS = 2, 4, 60, 200
"""Smallest numbers of steps of a way and of pairs of a prompt, and largest numbers of places and of ways (our
choice)."""
_PAIR = re.compile(r"^\W*(\w[\w' .]{0,30}?)\s*(<?[-–—=]{1,3}>?|↔|→|\band\b)\s*(\w[\w' .]{0,30}?)\W*$")
_STEP = re.compile(r"\s*(?:>|→|->|,)\s*")
_SHORTEST = re.compile(
    r"(?i)\b(?:as few|fewest|as short|shortest|(?:minimum|minimal|least|smallest) (?:number|count|amount))\b"
)
_BOTH = re.compile(r"(?i)\b(?:both directions|either direction|both ways|two-way|undirected|and back)\b")
_TELLS_APART = re.compile(
    r"(?i)\b(?:alphabet\w*|lexicograph\w*|ties?|tied|break\w*|prefer\w*|avoid\w*|without|closed|blocked|via|through|must|"
    r"except|unless|unique\w*|only one|earliest|cheap\w*|fast\w*|minutes?|km|miles?|cost\w*|lengths?|weights?|lines?|"
    r"chang\w+|in order)\b(?! of the)"
)
"""Words of prompts that may tell two ways of the same number of steps apart."""
_SQUARE = r"(?:[A-Za-z]\d{1,2}|\(\d{1,2}\s?,\s?\d{1,2}\))"
_SQUARES = re.compile(rf"(?<![\w(]){_SQUARE}(?:(?:\s*(?:>|→|->|-|,|;)\s*|\s+){_SQUARE}){{{_FEWEST_STEPS},}}(?!\w)")
"""A way over a grid, such as `B2 B3 C3` or `(1, 2) -> (1, 3)`."""
_ONE_SQUARE = re.compile(rf"(?<![\w(]){_SQUARE}(?!\w)")
_SIDES = re.compile(r"(?i)\b(?:above|below|up|down|left|right|north|south|horizontal\w*|vertical\w*|orthogonal\w*)\b")
_SQUARES_TELL_APART = re.compile(
    r"(?im)\b(?:alphabet\w*|lexicograph\w*|ties?|tied|break\w*|prefer\w*|via|through|unique\w*|only one|earliest|"
    r"cheap\w*|fast\w*|cost\w*|weights?|turns?|diagonal\w*|visit\w*|collect\w*)\b|#|█|^[^\w\n]{4,}$|^(?:[^\w\s] ?){3,}$"
)
"""Words of prompts that may tell two ways over a grid apart, and drawn grids."""


def equal_path_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return right replies with another way, one for each task whose way has an equal.

    `placed` are replies to tasks with what each is expected to earn.
    """
    prompts = {row.index: row for row in rows}
    found: list[Probe] = []
    for row, reply in right_replies(placed).items():
        other = _other_reply(whole_prompt(prompts[row]), prompt_of(prompts[row]), reply) if row in prompts else ""
        if other:
            found.append(Draft(Family.OTHER_WAY, other, OTHER_WAY).probe(f"way/{row}", row))
    return found


def _other_reply(asked: str, prompt: str, reply: str) -> str:
    """Return a reply with another way; empty if there is none, or if ways may differ in more than their steps."""
    if not _SHORTEST.search(asked):
        return ""
    told = re.sub(r"(?i)\b(?:last|final|single|one|own|first) lines?\b", "", asked)
    other = _other_over_pairs(prompt, reply) if not _TELLS_APART.search(told) else ""
    return other or _other_over_grid(asked, reply)


def _other_over_pairs(prompt: str, reply: str) -> str:
    joined = _joined(prompt)
    names = {name.casefold(): name for name in joined}
    line = next((text for text in reversed(reply.splitlines()) if len(_STEP.split(text)) > _FEWEST_STEPS), "")
    start = line.rfind(":") + 1
    written = [part.strip(" *`.") for part in _STEP.split(line[start:])]
    way = [names.get(part.casefold(), "") for part in written]
    other = _other_way(joined, way)
    mark = _STEP.search(line[start:])
    return reply.replace(line[start:].strip(" *`."), (mark[0] if mark else " > ").join(other)) if other else ""


def _other_over_grid(asked: str, reply: str) -> str:
    *_, found = (None, *_SQUARES.finditer(reply))
    if found is None or not _SIDES.search(asked) or _SQUARES_TELL_APART.search(asked):
        return ""
    way = _ONE_SQUARE.findall(found[0])
    places = [_place(square) for square in way]
    named = {_place(square) for square in _ONE_SQUARE.findall(asked)} - {places[0], places[-1]}
    columns, rows = zip(*places, strict=True)
    free = {
        (column, row): f"{column},{row}"
        for column in range(min(columns), max(columns) + 1)
        for row in range(min(rows), max(rows) + 1)
        if (column, row) not in named
    }
    joined = {
        name: frozenset(
            free[to]
            for to in ((column + 1, row), (column - 1, row), (column, row + 1), (column, row - 1))
            if to in free
        )
        for (column, row), name in free.items()
    }
    if len(free) > _MOST_PLACES:
        return ""
    other = _other_way(joined, [free.get(place, "") for place in places])
    if not other:
        return ""
    mark = found[0][len(way[0]) : found[0].index(way[1], len(way[0]))]
    squares = [_written(tuple(map(int, name.split(","))), way[0]) for name in other]
    return reply[: found.start()] + mark.join(squares) + reply[found.end() :]


def _place(square: str) -> tuple[int, int]:
    """Return the numbers of the column and the row of a square, such as (2, 3) for `B3` and for `(2, 3)`."""
    numbers = [int(number) for number in re.findall(r"\d+", square)]
    return (numbers[0], numbers[1]) if square[0] == "(" else (ord(square[0].upper()) - ord("A") + 1, numbers[0])


def _written(place: tuple[int, ...], example: str) -> str:
    """Write a square as the example is written."""
    if example[0] == "(":
        return f"({place[0]}{', ' if ' ' in example else ','}{place[1]})"
    return f"{chr(ord('A' if example[0].isupper() else 'a') + place[0] - 1)}{place[1]}"


def _other_way(joined: Mapping[str, frozenset[str]], way: Sequence[str]) -> list[str]:
    """Return another way between the ends of a way that is as short; empty if the way is no shortest one."""
    if len(way) <= _FEWEST_STEPS or not all(b in joined.get(a, ()) for a, b in pairwise(way)):
        return []
    ways = _shortest(joined, way[0], way[-1])
    return next((w for w in ways if w != list(way)), []) if list(way) in ways else []


def _joined(prompt: str) -> Mapping[str, frozenset[str]]:
    """Map each place to those that a step leads to; empty without a list of pairs, or if a pair has a number."""
    pairs = [match.groups() for line in prompt.splitlines() if (match := _PAIR.match(line))]
    if len(pairs) < _FEWEST_PAIRS or len({mark for _, mark, _ in pairs}) != 1:
        return {}
    one_way = pairs[0][1].endswith((">", "→")) and not pairs[0][1].startswith("<")
    steps: dict[str, set[str]] = {}
    for one, _, other in pairs:
        steps.setdefault(one, set()).add(other)
        steps.setdefault(other, set())
        if not one_way and (_BOTH.search(prompt) or pairs[0][1] == "↔" or pairs[0][1].startswith("<")):
            steps[other].add(one)
    return {} if len(steps) > _MOST_PLACES else {name: frozenset(to) for name, to in steps.items()}


def _shortest(joined: Mapping[str, frozenset[str]], start: str, goal: str) -> list[list[str]]:
    """Return some of the shortest ways from one place to another."""
    far = {start: 0}
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for step in joined[at] - far.keys():
            far[step] = far[at] + 1
            waiting.append(step)
    ways = [[goal]] if goal in far else []
    for _ in range(far.get(goal, 0)):
        before = ((at, way) for way in ways for at in sorted(far) if far[at] + 1 == far[way[0]])
        ways = [[at, *way] for at, way in before if way[0] in joined[at]][:_MOST_WAYS]
    return ways
