"""Plays a model that gives a hidden value of its task back once the environment has said the value.

A simulated user or an opponent may say what the task keeps from the model, such as a seller's lowest price, in its
answer to a senseless offer. The model here opens with a command of the prompt that is the same on every task, and then
gives in every turn the value that it was told. Where that earns everything, nobody has to negotiate, ask or guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import prompt_of, whole_prompt
from prime_lab_mcp.lab.rewards.constant_commands import earned_all
from prime_lab_mcp.lab.rewards.copied_messages import CopyingRule, ReplyForm
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.shown_commands import commands_in
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker

_FIRST, _TASKS, FEWEST_TASKS = 2, 8, 5
"""Numbers of tasks on which the environment must say the value first, on which the model plays, and that are needed."""
_MOST_OPENINGS, _MOST_VALUES = 4, 3
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_SHORTEST, _LONGEST = 2, 40
"""Smallest and largest number of characters of a value."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """A command that is the same on every task, and the form in which it has a value."""

    text: str
    form: ReplyForm


async def play_said_values(worker: Worker, rows: Sequence[Row], form: AnswerWrapper) -> tuple[CopyingRule, ...]:
    """Return the first such model that earned all of the weights on most tasks; empty if there is none.

    `form` is the form of a reply that the prompts or the code name.
    """
    different = list({repr((prompt_of(row), row.answer, row.info, row.fields)): row for row in rows}.values())[:_TASKS]
    if len(different) < FEWEST_TASKS:
        return ()
    hidden = {row.index: dict(_hidden_values(row)) for row in different}
    openings = list(_openings(different, form))[:_MOST_OPENINGS]
    if not all(hidden.values()) or not openings:
        return ()
    first = await play_pairs(
        worker, [(row.index, _constant(opening)) for opening in openings for row in different[:_FIRST]]
    )
    told = [
        (opening, field)
        for opening in openings
        for field in _said_fields([p for p in first if p.script == _constant(opening)], hidden)
    ]
    for opening, field in told[:_MOST_VALUES]:
        found = await _played(worker, [row for row in different if field in hidden[row.index]], opening, field, hidden)
        if found is not None:
            return (found,)
    return ()


async def _played(
    worker: Worker, rows: Sequence[Row], opening: _Opening, field: str, hidden: Mapping[int, Mapping[str, str]]
) -> CopyingRule | None:
    """Play the model on all these tasks, and beside it the one that only repeats the opening."""
    name = f"says {quote(opening.text, 60)} first, and then the {quote(field, 40)} that the environment has said"
    scripts = {row.index: _giving_back(name, opening, hidden[row.index][field]) for row in rows}
    tried: list[PlayedScript] = []
    for some in (rows[:_FIRST], rows[_FIRST:]):
        tried += await play_pairs(worker, [(row.index, scripts[row.index]) for row in some])
        paid = [p for p in tried if earned_all(p) and _was_said(p, hidden[p.row][field])]
        if len(paid) < _FIRST:
            return None
    if len(tried) < len(rows):
        return None
    constant = await play_pairs(worker, [(row.index, _constant(opening)) for row in rows])
    if len(tried) < FEWEST_TASKS or not constant:
        return None
    share = sum(map(earned_all, constant)) / len(constant)
    return CopyingRule(name, True, tuple(tried), tuple(paid), share, 0)


def _openings(rows: Sequence[Row], form: AnswerWrapper) -> Iterator[_Opening]:
    """Yield the commands with one number that all prompts list, and the number 1 in the asked form."""
    stated = [commands_in(whole_prompt(row)) for row in rows]
    for text in stated[0]:
        numbers = list(_NUMBER.finditer(text))
        if len(numbers) == 1 and all(text in others for others in stated):
            yield _Opening(text, ReplyForm(text[: numbers[0].start()], text[numbers[0].end() :]))
    yield _Opening(form.wrap("1"), ReplyForm(form.open, form.close))


def _hidden_values(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the fields of a task with a short value that its prompt does not show."""
    prompt = whole_prompt(row)
    info = row.info if isinstance(row.info, Mapping) else {}
    for field, value in {"answer": row.answer, **info, **row.fields}.items():
        text = _as_text(value)
        if text and not _states(prompt, text):
            yield str(field), text


def _as_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    return text if _SHORTEST <= len(text) <= _LONGEST else ""


def _said_fields(played: Sequence[PlayedScript], hidden: Mapping[int, Mapping[str, str]]) -> list[str]:
    """The fields whose values the environment has said in each of these rollouts."""
    if len(played) < _FIRST:
        return []
    return [
        field
        for field in hidden[played[0].row]
        if all(field in hidden[p.row] and _was_said(p, hidden[p.row][field]) for p in played)
    ]


def _was_said(played: PlayedScript, value: str) -> bool:
    """Whether the environment says a value between two turns of the model that the model has not said before."""
    said = False
    messages = played.result.messages
    turns = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    for message in messages[turns[0] + 1 : turns[-1]] if len(turns) > 1 else ():
        text = str(message.get("content") or "")
        if message.get("role") == "assistant":
            if _states(text, value):
                return said
        elif _states(text, value):
            said = True
    return said


def _states(text: str, value: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text, re.IGNORECASE) is not None


def _constant(opening: _Opening) -> RolloutScript:
    name = f"says {quote(opening.text, 60)} in every turn"
    return RolloutScript(name, "copied", {"turns": [opening.text], "then": "repeat"})


def _giving_back(name: str, opening: _Opening, value: str) -> RolloutScript:
    return RolloutScript(name, "copied", {"turns": [opening.text, opening.form.wrap(value)], "then": "repeat"})
