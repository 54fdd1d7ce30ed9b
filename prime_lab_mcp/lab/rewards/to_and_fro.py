"""Plays a model that walks to and fro, the same in every task, and measures whether this is paid without end.

A game may pay for each step that leads nearer to its goal and not take back what a step away undoes. Two opposite steps
that follow each other then earn at every second turn, wherever the goal lies. The steps are pairs of opposite words
that a tool names, or of which all prompts name one and the prompts or the code the other. No solution is needed, and
none is played.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import prompt_of, whole_prompt
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.shown_commands import PLACE, SHOWN, choices
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import ENDLESS, ROLLOUT_SECONDS, TURNS, OfferedTool

OPPOSITES = (
    ("north", "south"),
    ("east", "west"),
    ("up", "down"),
    ("left", "right"),
    ("forward", "back"),
    ("forward", "backward"),
    ("forwards", "backwards"),
    ("N", "S"),
    ("E", "W"),
    ("U", "D"),
    ("L", "R"),
)
_TASKS, _FEWEST = 8, 5
"""Number of different tasks that a walk is played on, and the smallest number on which its reward must grow: on some
tasks a walk finds the goal by chance."""
_FIRST = 2
"""Number of tasks of which the reward must grow on one before a walk is played on the others."""
_SHORT = (4, 5, 6, 12)
"""Turns of the walks that show what one more turn adds, and that it goes on."""
_LONG = (ENDLESS - 4, TURNS - 4)
"""Turns of the walks that show what is earned when the environment ends the rollout: fewer than those after which
rollouts are cut. The second walk is played where the first one has no reward."""
_FEWEST_TURNS = 24
"""Turns of such a walk where turns take so long that a longer rollout would be cut short (our choice)."""
_TIME_SHARE = 0.5
"""Share of a rollout's time limit that a long walk may take by the duration of the short ones."""
_LITTLE = 0.25
"""Share of what both steps earn that the worse one may earn: a turn that is used may cost less than one that is not.
Where the game pays for going on, both earn half (our choice)."""
_MOST_WALKS = 6
_CALLED = re.compile(r"(?<=[\"'`])(?P<verb>[A-Za-z]{2,12})[ \t]+(?P<word>[A-Za-z]{1,9})(?=[\"'`])")
"""A command that a prompt shows with its word, such as `move north`."""


@dataclass(frozen=True, slots=True)
class PaidWalk:
    """A walk to and fro with its rollouts, one for each task on which its reward grows."""

    name: str
    """What the model does, as the end of "a model that ..."."""
    rollouts: tuple[PlayedScript, ...]
    step: float
    """The smallest reward of one turn and its opposite together."""


async def play_to_and_fro(
    worker: Worker, rows: Sequence[Row], tools: Sequence[OfferedTool], form: AnswerWrapper, source: str
) -> PaidWalk | None:
    """Return the first walk whose reward grows with its length on most tasks; None without one.

    It must be paid for one of the two steps mainly: where every turn is paid, the game pays for going on, and a walk is
    one way to do so. `form` is the form of a reply that the prompts or the code name. `source` is the code.
    """
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) < _FEWEST:
        return None
    prompts = [whole_prompt(row) for row in different]
    for name, pair in list(_walks(prompts, tools, form, source))[:_MOST_WALKS]:
        steps = await _steps(worker, different[:_FIRST], name, pair)
        if steps:
            steps |= await _steps(worker, different[_FIRST:], name, pair)
        if len(steps) >= _FEWEST:
            slowest = max(turn_ms for _, turn_ms in steps.values())
            fitting = int(_TIME_SHARE * 1000 * ROLLOUT_SECONDS / max(slowest, 1.0))
            for turns in dict.fromkeys(max(_FEWEST_TURNS, min(most, fitting)) for most in _LONG):
                played = await play_pairs(worker, [(row, _script(name, pair, turns)) for row in steps])
                if len(played) >= _FEWEST and all(p.scored for p in played):
                    return PaidWalk(name, tuple(played), min(step for step, _ in steps.values()))
    return None


async def _steps(worker: Worker, rows: Sequence[Row], name: str, pair: Sequence[Any]) -> dict[int, tuple[float, float]]:
    """Map the tasks on which the reward of a walk grows to what a turn and its opposite earn, and to the duration of a
    turn in milliseconds."""
    wanted = [(row.index, _script(name, pair, turns)) for row in rows for turns in _SHORT]
    played = await play_pairs(worker, wanted)
    steps: dict[int, tuple[float, float]] = {}
    for at in range(0, len(played) if len(played) == len(wanted) else 0, len(_SHORT)):
        walks = played[at : at + len(_SHORT)]
        four, five, six, twelve = (p.result.reward or 0.0 for p in walks)
        step = six - four
        one_of_two = min(abs(five - four), abs(six - five)) <= _LITTLE * step + EPSILON
        if all(p.scored for p in walks) and step > EPSILON and one_of_two and twelve - six >= 2 * step - EPSILON:
            turn_ms = (walks[-1].result.ms - walks[0].result.ms) / (_SHORT[-1] - _SHORT[0])
            steps[walks[0].row] = step, turn_ms
    return steps


def _script(name: str, pair: Sequence[Any], turns: int) -> RolloutScript:
    walked = [pair[turn % len(pair)] for turn in range(turns)]
    return RolloutScript(name, "copied", {"turns": walked, "then": "silence"})


def _walks(
    prompts: Sequence[str], tools: Sequence[OfferedTool], form: AnswerWrapper, source: str
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield (name, two opposite turns) in the forms in which the tools and the prompts name steps."""
    for tool in tools:
        for parameter, schema in (tool.parameters.get("properties") or {}).items():
            for pair in _pairs_in([f"{json.dumps(schema)} {tool.description}"], ""):
                calls = [_call(tool, parameter, word, schema) for word in pair]
                yield f"calls {tool.name} with {pair[0]!r} and {pair[1]!r} in turn", calls
    if tools:
        return
    for pair in _pairs_in(prompts, source):
        for text in _forms(prompts, pair, form):
            replies = [text.replace("\0", word) for word in pair]
            yield f"replies {quote(replies[0], 40)} and {quote(replies[1], 40)} in turn", replies


def _pairs_in(texts: Sequence[str], source: str) -> Iterator[tuple[str, ...]]:
    """Yield the pairs of opposite words of which every text names one and the texts or the code the other.

    Single letters count in capitals only. A prompt often shows one step as an example, and only the code has them all.
    """
    for pair in OPPOSITES:
        flags = 0 if len(pair[0]) == 1 else re.IGNORECASE
        found = [[re.search(rf"(?<![\w']){word}(?![\w'])", text, flags) for word in pair] for text in texts]
        everywhere = [all(one[at] for one in found) for at in range(len(pair))]
        quoted = [re.search(rf"[\"']({word})[\"']", source, flags) for word in pair]
        if any(everywhere) and all(e or q for e, q in zip(everywhere, quoted, strict=True)):
            first = [match[0] if match else "" for match in found[0]]  # As the first prompt writes them.
            known = [q[1] if q else "" for q in quoted]
            yield tuple(f if e else k for f, k, e in zip(first, known, everywhere, strict=True))


def _forms(prompts: Sequence[str], pair: Sequence[str], form: AnswerWrapper) -> Iterator[str]:
    """Yield the forms of a step, with a NUL in the place of its word."""
    words = {word.lower() for word in pair}
    shown = [m for m in SHOWN.finditer(prompts[0]) if words.intersection(map(str.lower, choices(m["places"].strip())))]
    forms = [re.sub(PLACE, "\0", m[0]) for m in shown]
    forms += [f"{m['verb']} \0" for m in _CALLED.finditer(prompts[0]) if m["word"].lower() in words]
    yield from dict.fromkeys([*forms, form.wrap("\0")] if form.kind != "plain" or not forms else forms)


def _call(tool: OfferedTool, parameter: str, word: str, schema: Any) -> Mapping[str, Any]:
    known = schema.get("enum") if isinstance(schema, Mapping) else None
    value = next((v for v in known or () if str(v).lower() == word.lower()), word)
    return {"calls": [[tool.name, {**arguments(tool.parameters), parameter: value}]]}
