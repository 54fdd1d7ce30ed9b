"""Plays one command, the same on every task, as the first reply of a rollout.

A prompt of a game or a negotiation lists its commands, such as `OFFER <euros>` and `LEAVE`, or shows one in a sentence,
such as `GUESS: <animal>` or `MOVE <up|down> <steps>`. A reward may take what such a command states without asking
whether it was allowed, or pay for taking part. The model here fills the commands with extreme numbers and knows nothing
of the task; where it earns all on every task, there is nothing to learn. It also gives the values of a list that all
prompts have, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
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
_PLACES = re.compile(_PLACE)
_COMMAND = re.compile(
    rf"^[\s*`\"'-]*(?P<verb>[A-Z][A-Z_]+|[a-z]{{2,15}})(?P<places>(?:[ \t]+{_PLACE})*)(?=$|[\s`\"',:.])"
)
_SHOWN = re.compile(rf"(?:(?<=[\"'`])|(?<![\w-]))(?P<verb>[A-Z][A-Z_]+:?)(?P<places>(?:[ \t]+{_PLACE})+)")
_WORDS = re.compile(r"\b[\w-]{1,20}(?:,\s+(?:and |or )?[\w-]{1,20}){3,}\b")
_MOST_SHOWN, _MOST_WORDS = 3, 16


@dataclass(frozen=True, slots=True)
class ConstantCommand:
    """A command that was played as the first reply on tasks with different prompts, with its rollouts."""

    text: str
    tried: tuple[PlayedScript, ...]
    all_earned: bool = True
    """The command earned all on every task; otherwise more than half of all."""


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
    return list(dict.fromkeys([*texts, *_shown_commands(prompt)]))[:_MOST_TEXTS]


def _shown_commands(prompt: str) -> Iterator[str]:
    """Yield the commands that a prompt shows in a sentence, with numbers or one of the shown words in their places."""
    for match in list(_SHOWN.finditer(prompt))[:_MOST_SHOWN]:
        for number in _NUMBERS:
            yield _with_choices(match, number)


def _with_choices(command: re.Match[str], number: str) -> str:
    """Return a command with a number in each place, or the first of the words that the place names."""
    return command["verb"] + re.sub(_PLACE, lambda place: _choices(place[0])[0] or number, command["places"])


def _choices(place: str) -> list[str]:
    """Return the words that a place such as `<up|down>` names; one empty text for any other place."""
    words = [word.strip() for word in re.split(r"[|/]", place[1:-1])]
    return words if len(words) > 1 else [""]


def _lists(prompt: str) -> list[str]:
    """Return the longest list of words with commas in a prompt."""
    found = [re.split(r",\s*(?:and |or )?", match[0]) for match in _WORDS.finditer(prompt)]
    return max(found, key=len, default=[])


def _filled(command: re.Match[str], number: str) -> str:
    return command["verb"] + re.sub(_PLACE, number, command["places"])


async def play_commands(worker: Worker, rows: Sequence[Row]) -> tuple[ConstantCommand, ...]:
    """Play the commands that all prompts list. Return those that earned all of the weights on all tasks."""
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) < _FEWEST:
        return ()
    prompts = ["\n\n".join(message_text(m) for m in row.prompt) for row in different]
    stated = [commands_in(prompt) for prompt in prompts]
    texts = [text for text in stated[0] if all(text in others for others in stated)]
    scripts = [_script(t) for t in texts]
    words = [word for word in _lists(prompts[0]) if all(word in _lists(prompt) for prompt in prompts)]
    shown = [
        m for m in _SHOWN.finditer(prompts[0]) if all(m[0] in p for p in prompts) and len(_PLACES.findall(m[0])) == 1
    ]
    if len(words) > _MOST_SHOWN and shown:
        name = f"replies {quote(shown[0][0], 60)} with one word of the prompt's list after the other"
        turns = [re.sub(_PLACE, word, shown[0][0]) for word in words[:_MOST_WORDS]]
        scripts.append(RolloutScript(name, "copied", {"turns": turns, "then": "repeat"}))
    first = await play_pairs(worker, [(row.index, script) for script in scripts for row in different[:_FIRST]])
    return tuple([c async for c in _paid(worker, scripts, first, different)])


async def _paid(
    worker: Worker, scripts: Sequence[RolloutScript], first: Sequence[PlayedScript], rows: Sequence[Row]
) -> AsyncIterator[ConstantCommand]:
    """Yield the first command that earned all on every task, else the first that earned more than half on every one."""
    for wanted, whole in ((earned_all, True), (earned_half, False)):
        for script in scripts:
            tried = [p for p in first if p.script == script]
            if len(tried) < _FIRST or not all(map(wanted, tried)):
                continue
            tried += await play_pairs(worker, [(row.index, script) for row in rows[_FIRST:]])
            if len(tried) >= _FEWEST and all(map(wanted, tried)):
                yield ConstantCommand(script.name, tuple(tried), whole)
                return


def _script(text: str) -> RolloutScript:
    return RolloutScript(f"replies {quote(text, 60)} to every task", "copied", {"turns": [text], "then": "repeat"})


def earned_half(played: PlayedScript) -> bool:
    """Whether a rollout earned more than half of the sum of the positive weights of its components."""
    whole = sum(c.weight for c in played.result.components.values() if c.weight > 0)
    return played.scored and whole > 0 and (played.result.reward or 0.0) > HALF_SHARE * whole + EPSILON


def earned_all(played: PlayedScript) -> bool:
    """Whether a rollout earned the sum of the positive weights of its components, and not more."""
    whole = sum(c.weight for c in played.result.components.values() if c.weight > 0)
    reward = played.result.reward or 0.0
    return played.scored and whole > 0 and FULL_SHARE * whole - EPSILON <= reward <= whole / FULL_SHARE + EPSILON
