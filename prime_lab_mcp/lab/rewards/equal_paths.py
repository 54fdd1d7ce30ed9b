"""Finds other ways that are as short as a right one, where the prompt lists the pairs of places that are joined.

A task that asks for a shortest way often has several. A reward that compares the reply with one stored way refuses the
others, and which of them a model gives is chance. The right way is a reply of the caller. It counts only if each of its
steps is a pair that the prompt lists, and if the prompt states no lengths and nothing else that tells ways apart.
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


def equal_path_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return the caller's right replies with another way, one for each task whose way has an equal."""
    prompts = {row.index: row for row in rows}
    found: list[Probe] = []
    for row, reply in right_replies(placed).items():
        other = _other_reply(whole_prompt(prompts[row]), prompt_of(prompts[row]), reply) if row in prompts else ""
        if other:
            found.append(Draft(Family.OTHER_WAY, other, OTHER_WAY).probe(f"way/{row}", row))
    return found


def _other_reply(asked: str, prompt: str, reply: str) -> str:
    """Return a reply with another way; empty if there is none, or if ways may differ in more than their steps."""
    told = re.sub(r"(?i)\b(?:last|final|single|one|own|first) lines?\b", "", asked)
    if not _SHORTEST.search(asked) or _TELLS_APART.search(told):
        return ""
    joined = _joined(prompt)
    names = {name.casefold(): name for name in joined}
    line = next((text for text in reversed(reply.splitlines()) if len(_STEP.split(text)) > _FEWEST_STEPS), "")
    start = line.rfind(":") + 1
    written = [part.strip(" *`.") for part in _STEP.split(line[start:])]
    way = [names.get(part.casefold(), "") for part in written]
    if len(way) <= _FEWEST_STEPS or not all(b in joined.get(a, ()) for a, b in pairwise(way)):
        return ""
    ways = _shortest(joined, way[0], way[-1])
    other = next((w for w in ways if w != way), None)
    if other is None or way not in ways:
        return ""
    mark = _STEP.search(line[start:])
    return reply.replace(line[start:].strip(" *`."), (mark[0] if mark else " > ").join(other))


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
