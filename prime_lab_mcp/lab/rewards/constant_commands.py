"""Plays one command, the same on every task, as the first reply of a rollout.

A prompt of a game or a negotiation lists its commands, such as `OFFER <euros>` and `LEAVE`. A reward may take what such
a command states without asking whether it was allowed. The model here fills the commands with extreme numbers and
knows nothing of the task; where it earns all on every task, there is nothing to learn.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker

_NUMBERS = ("1", "0", "1000")
"""What stands in the place of each placeholder."""
_MOST_TEXTS = 8
_TASKS, _FEWEST = 8, 5
"""Number of tasks with different prompts that a command is played on, and the smallest number that shows something."""
_FIRST = 2
"""Number of tasks on which a command must earn all before it is played on the others."""
_PLACE = r"(?:<[^<>\n]{1,30}>|\[[^\[\]\n]{1,30}\]|\{[^{}\n]{1,30}\})"
_COMMAND = re.compile(
    rf"^[\s*`\"'-]*(?P<verb>[A-Z][A-Z_]+|[a-z]{{2,15}})(?P<places>(?:[ \t]+{_PLACE})*)(?=$|[\s`\"',:.])"
)


@dataclass(frozen=True, slots=True)
class ConstantCommand:
    """A command that was played as the first reply on tasks with different prompts, with its rollouts."""

    text: str
    tried: tuple[PlayedScript, ...]


def commands_in(prompt: str) -> list[str]:
    """Return the commands of a prompt with numbers in their places; none if no line of it begins with a command.

    A list of commands has a placeholder in one of at least two lines that follow each other. Its words without one are
    in capitals.
    """
    lists: list[list[re.Match[str]]] = [[]]
    for line in prompt.split("\n"):
        match = _COMMAND.match(line)
        if match is not None and (match["places"] or match["verb"].isupper()):
            lists[-1].append(match)
        elif lists[-1]:
            lists.append([])
    found = [m for listed in lists if len(listed) > 1 and any(m["places"] for m in listed) for m in listed]
    texts = [_filled(m, number) for number in _NUMBERS for m in found if m["places"] or number == _NUMBERS[0]]
    return list(dict.fromkeys(texts))[:_MOST_TEXTS]


def _filled(command: re.Match[str], number: str) -> str:
    return command["verb"] + re.sub(_PLACE, number, command["places"])


async def play_commands(worker: Worker, rows: Sequence[Row]) -> tuple[ConstantCommand, ...]:
    """Play the commands that all prompts list. Return those that earned all of the weights on all tasks."""
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) < _FEWEST:
        return ()
    stated = [commands_in("\n\n".join(message_text(m) for m in row.prompt)) for row in different]
    texts = [text for text in stated[0] if all(text in others for others in stated)]
    first = await play_pairs(worker, [(row.index, _script(t)) for t in texts for row in different[:_FIRST]])
    return tuple([c async for c in _paid(worker, texts, first, different)])


async def _paid(
    worker: Worker, texts: Sequence[str], first: Sequence[PlayedScript], rows: Sequence[Row]
) -> AsyncIterator[ConstantCommand]:
    for text in texts:
        script = _script(text)
        tried = [p for p in first if p.script == script]
        if len(tried) < _FIRST or not all(map(earned_all, tried)):
            continue
        tried += await play_pairs(worker, [(row.index, script) for row in rows[_FIRST:]])
        if len(tried) >= _FEWEST and all(map(earned_all, tried)):
            yield ConstantCommand(text, tuple(tried))
            return


def _script(text: str) -> RolloutScript:
    return RolloutScript(f"replies {quote(text, 60)} to every task", "copied", {"turns": [text], "then": "repeat"})


def earned_all(played: PlayedScript) -> bool:
    """Whether a rollout earned the sum of the positive weights of its components, and not more."""
    whole = sum(c.weight for c in played.result.components.values() if c.weight > 0)
    reward = played.result.reward or 0.0
    return played.scored and whole > 0 and FULL_SHARE * whole - EPSILON <= reward <= whole / FULL_SHARE + EPSILON
