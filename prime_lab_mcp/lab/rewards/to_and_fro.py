"""Plays a model that walks to and fro, the same in every task, and measures whether this is paid without end.

A game may pay for each step that leads nearer to its goal and not take back what a step away undoes. Two opposite steps
that follow each other then earn at every second turn, wherever the goal lies. The steps are pairs of opposite words
that all prompts, or a tool, name. No solution is needed, and none is played.
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
from prime_lab_mcp.lab.worker.scoring import OfferedTool

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
_LONG = 120
"""Turns of the walk that shows what is earned when the environment ends the rollout (our choice)."""
_MOST_WALKS = 6
_CALLED = re.compile(r"(?<=[\"'`])(?P<verb>[A-Za-z]{2,12})[ \t]+(?P<word>[A-Za-z]{1,9})(?=[\"'`])")
"""A command that a prompt shows with its word, such as `move north`."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk to and fro with its rollouts, one for each task on which its reward grows."""

    name: str
    """What the model does, as the end of "a model that ..."."""
    rollouts: tuple[PlayedScript, ...]
    step: float
    """The smallest reward of one turn and its opposite together."""


async def play_to_and_fro(
    worker: Worker, rows: Sequence[Row], tools: Sequence[OfferedTool], form: AnswerWrapper
) -> Walk | None:
    """Return the first walk whose reward grows with its length on most tasks; None without one.

    It must be paid for one of the two steps only: where every turn is paid, the game pays for going on, and a walk is
    one way to do so. `form` is the form of a reply that the prompts or the code name.
    """
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) < _FEWEST:
        return None
    prompts = [whole_prompt(row) for row in different]
    for name, pair in list(_walks(prompts, tools, form))[:_MOST_WALKS]:
        steps = await _steps(worker, different[:_FIRST], name, pair)
        if steps:
            steps |= await _steps(worker, different[_FIRST:], name, pair)
        if len(steps) >= _FEWEST:
            played = await play_pairs(worker, [(row, _script(name, pair, _LONG)) for row in steps])
            if len(played) >= _FEWEST and all(p.scored for p in played):
                return Walk(name, tuple(played), min(steps.values()))
    return None


async def _steps(worker: Worker, rows: Sequence[Row], name: str, pair: Sequence[Any]) -> dict[int, float]:
    """Map the tasks on which the reward of a walk grows to what a turn and its opposite earn."""
    wanted = [(row.index, _script(name, pair, turns)) for row in rows for turns in _SHORT]
    played = await play_pairs(worker, wanted)
    steps: dict[int, float] = {}
    for at in range(0, len(played) if len(played) == len(wanted) else 0, len(_SHORT)):
        walks = played[at : at + len(_SHORT)]
        four, five, six, twelve = (p.result.reward or 0.0 for p in walks)
        step = six - four
        one_of_two = min(abs(five - four), abs(six - five)) <= EPSILON
        if all(p.scored for p in walks) and step > EPSILON and one_of_two and twelve - six >= 2 * step - EPSILON:
            steps[walks[0].row] = step
    return steps


def _script(name: str, pair: Sequence[Any], turns: int) -> RolloutScript:
    walked = [pair[turn % len(pair)] for turn in range(turns)]
    return RolloutScript(name, "copied", {"turns": walked, "then": "silence"})


def _walks(
    prompts: Sequence[str], tools: Sequence[OfferedTool], form: AnswerWrapper
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield (name, two opposite turns) in the forms in which the tools and the prompts name steps."""
    for tool in tools:
        for parameter, schema in (tool.parameters.get("properties") or {}).items():
            for pair in _pairs_in([f"{json.dumps(schema)} {tool.description}"]):
                calls = [_call(tool, parameter, word, schema) for word in pair]
                yield f"calls {tool.name} with {pair[0]!r} and {pair[1]!r} in turn", calls
    if tools:
        return
    for pair in _pairs_in(prompts):
        for text in _forms(prompts, pair[0], form):
            replies = [text.replace("\0", word) for word in pair]
            yield f"replies {quote(replies[0], 40)} and {quote(replies[1], 40)} in turn", replies


def _pairs_in(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the pairs of opposite words that every text names. Single letters count in capitals only."""
    for pair in OPPOSITES:
        flags = 0 if len(pair[0]) == 1 else re.IGNORECASE
        found = [[re.search(rf"(?<![\w']){word}(?![\w'])", text, flags) for word in pair] for text in texts]
        if all(all(one) for one in found):
            yield tuple(match[0] for match in found[0] if match is not None)[:2]  # As the first prompt writes them.


def _forms(prompts: Sequence[str], word: str, form: AnswerWrapper) -> Iterator[str]:
    """Yield the forms of a step, with a NUL in the place of its word."""
    shown = [m for m in SHOWN.finditer(prompts[0]) if word in choices(m["places"].strip())]
    forms = [re.sub(PLACE, "\0", m[0]) for m in shown]
    forms += [f"{m['verb']} \0" for m in _CALLED.finditer(prompts[0]) if m["word"].lower() == word.lower()]
    yield from dict.fromkeys([*forms, form.wrap("\0")] if form.kind != "plain" or not forms else forms)


def _call(tool: OfferedTool, parameter: str, word: str, schema: Any) -> Mapping[str, Any]:
    known = schema.get("enum") if isinstance(schema, Mapping) else None
    value = next((v for v in known or () if str(v).lower() == word.lower()), word)
    return {"calls": [[tool.name, {**arguments(tool.parameters), parameter: value}]]}
