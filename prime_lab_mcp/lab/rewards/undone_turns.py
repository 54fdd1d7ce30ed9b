"""Plays a paid step of a solution, undoes it, and makes it again, many times.

A game may count a success when it happens and not take it back when it is undone, so that one lamp that is lit and put
out again and again is paid like many lamps. The step that undoes another one is in no solution. It is looked for among
the commands that the prompt lists and among the tools that the environment offers. A cycle counts only if the
environment says the same after each round, apart from numbers: then the round leads back to where it began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript, turn_of, turns_script
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_FEWEST_STEPS, _MOST_STEPS, _MOST_COMMANDS, _MOST_UNDOING = 3, 80, 16, 12
"""Numbers of steps of a solution, of commands of a prompt, and of steps that are tried as undoing one (our choice)."""
_ENOUGH = 0.9
"""Share of the solution's reward that a cycle must earn, as its turns may cost something (our choice)."""
_ROUNDS = (8, 4)
"""Numbers of rounds: the smaller one is tried where the larger one earns at least half (our choice)."""
_TURN = re.compile(r"^\W*(?P<label>[A-Za-z][A-Za-z ]{0,20}[:>]\s*)?(?P<steps>[A-Za-z_][\w ,;-]*)[.\s]*$")
_TAGGED = re.compile(r"(?P<label><(?P<tag>[A-Za-z_][\w-]*)>)\s*(?P<steps>[^<>]+?)\s*(?P<close></(?P=tag)>)\s*\Z")
"""Commands in a tag, such as `<program>N, E, PICK</program>`."""
_STEP = re.compile(r"[A-Za-z_][\w-]*(?: [\w-]+){0,3}")
_WORD = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True, slots=True)
class _Steps:
    """A solution as single steps: commands with the label of their turns, or calls of tools."""

    steps: tuple[Any, ...]
    label: str = ""
    pack: int = 1
    """Largest number of commands of one turn."""
    close: str = ""
    """What stands behind the commands of a turn, such as `</program>`."""
    ending: tuple[Any, ...] = ()
    """The step that ends a rollout early, such as `stop`."""

    def start(self, number: int | None) -> list[Any]:
        """Return the turns of the first steps, and the one that ends the rollout."""
        ending = self.ending if number is not None else ()
        return [*self.turns(self.steps[:number]), *self.turns(ending)]

    def turns(self, steps: Sequence[Any]) -> list[Any]:
        if not all(isinstance(step, str) for step in steps):
            return [{"calls": [step], "text": None} for step in steps]
        packs = [steps[n : n + self.pack] for n in range(0, len(steps), self.pack)]
        return [self.label + ", ".join(pack) + self.close for pack in packs]


async def play_undone(
    worker: Worker, solutions: Sequence[PlayedScript], prompts: Mapping[int, str]
) -> tuple[list[PlayedScript], int]:
    """Repeat the first paid step of each solution with a step that undoes it. Return what earned `_ENOUGH`, and the
    number of solutions that were tried."""
    paid: list[PlayedScript] = []
    undoing: Any = None
    splits = [(solution, _split(solution)) for solution in solutions]
    lasts = [split.steps[-1:] for _, split in splits if split is not None]
    for tried, (solution, split) in enumerate(splits, 1):
        prompt = prompts.get(solution.row, "")
        found, undoing = await _of_solution(worker, solution, split, prompt, undoing, lasts)
        if found is None:
            return paid, tried
        paid.append(found)
    return paid, len(solutions)


async def _of_solution(
    worker: Worker,
    solution: PlayedScript,
    split: _Steps | None,
    prompt: str,
    undoing: Any,
    lasts: Sequence[tuple[Any, ...]],
) -> tuple[PlayedScript | None, Any]:
    """Return the rollout of a cycle that earned `_ENOUGH` of the solution, and the step that undoes the paid one."""
    if split is None or not _FEWEST_STEPS <= len(split.steps) <= _MOST_STEPS:
        return None, None
    whole = FULL_SHARE * (solution.result.reward or 0.0) - EPSILON
    enough = _ENOUGH * (solution.result.reward or 0.0) - EPSILON
    endings = {json.dumps(last): last for last in ((), *lasts)}
    ended = [replace(split, ending=last) for last in endings.values()]
    first = await play_pairs(worker, [(solution.row, turns_script("", one.start(1))) for one in ended])
    fitting = [one for one, p in zip(ended, first, strict=False) if p.scored and (p.result.reward or 0.0) < whole]
    place = await _first_paid(worker, solution, fitting[0], whole) if len(first) == len(ended) and fitting else None
    if place is None:
        return None, None
    split = fitting[0]
    paid = split.steps[place - 1]
    steps = _undoing(solution, prompt, split, paid)
    later = [step for step in split.steps[place:] if step != paid]
    steps = [s for s in steps if any(other != s for other in later)]
    if undoing is not None:
        steps = sorted(steps, key=lambda s: _verb(s) != _verb(undoing))[:2]
    for rounds in _ROUNDS:
        scripts = {json.dumps(s): _cycle(split, place, s, rounds) for s in steps}
        played = await play_pairs(worker, [(solution.row, script) for script in scripts.values()])
        of_step = [(next(s for s in steps if scripts[json.dumps(s)] is p.script), p) for p in played if p.scored]
        for step, p in of_step:
            if (p.result.reward or 0.0) >= enough and _goes_round(p, split, place, rounds):
                return p, step
        # Where turns cost something, fewer rounds earn more.
        steps = [step for step, p in of_step if (p.result.reward or 0.0) >= HALF_SHARE * whole]
    return None, None


def _split(solution: PlayedScript) -> _Steps | None:
    """Return the single steps of a solution; None if its turns are neither commands nor calls."""
    turns = [turn_of(m) for m in solution.result.messages if m.get("role") == "assistant"]
    calls = [call for turn in turns if not isinstance(turn, str) for call in turn["calls"]]
    if calls:
        return _Steps(tuple(calls))
    steps: list[str] = []
    labels: dict[tuple[str, str], int] = {}
    pack = 1
    for turn in turns:
        lines = [line for line in turn.splitlines() if line.strip()]
        tagged = _TAGGED.search(turn)
        match = tagged or (_TURN.match(lines[-1]) if lines else None)
        found = [s.strip() for s in re.split(r"[,;\n]", match["steps"]) if s.strip()] if match else []
        if match is None or not all(_STEP.fullmatch(step) for step in found):
            continue  # A turn without commands, such as a thought.
        around = (match["label"] or "", tagged["close"] if tagged else "")
        labels[around] = labels.get(around, 0) + 1
        steps += found
        pack = max(pack, len(found))
    label, close = max(labels, key=lambda around: labels[around], default=("", ""))
    return _Steps(tuple(steps), label, pack, close) if steps else None


async def _first_paid(worker: Worker, solution: PlayedScript, split: _Steps, whole: float) -> int | None:
    """Return the number of the first step that is paid, but not in full; None without one.

    The steps alone must earn what the solution earned.
    """
    ends = await play_pairs(worker, [(solution.row, turns_script("", split.start(n))) for n in (1, None)])
    if len(ends) < 2 or (ends[1].result.reward or 0.0) < whole:
        return None
    start = ends[0].result.reward or 0.0
    if start > EPSILON:
        return 1 if start < whole else None
    low, high, earned = 1, len(split.steps), whole
    while high - low > 1:
        middle = (low + high) // 2
        played = await play_pairs(worker, [(solution.row, turns_script("", split.start(middle)))])
        if not played or not played[0].scored:
            return None
        reward = played[0].result.reward or 0.0
        low, high, earned = (low, middle, reward) if reward > EPSILON else (middle, high, earned)
    return high if earned < whole else None


def _undoing(solution: PlayedScript, prompt: str, split: _Steps, paid: Any) -> list[Any]:
    """Return steps that may undo a paid one: other commands of the prompt, or other tools, with its arguments."""
    if not isinstance(paid, str):
        return [call for tool in solution.result.tools if (call := _call_with(tool, paid)) is not None]
    verb, _, rest = paid.partition(" ")
    used = {_verb(step) for step in split.steps}
    others = [word for word in _commands(prompt, used) if word.casefold() != verb.casefold()]
    others.sort(key=lambda word: word.casefold() in used)  # What undoes is rarely part of a solution.
    return [f"{other} {rest}".strip() for other in others][:_MOST_UNDOING]


def _commands(prompt: str, used: set[str]) -> list[str]:
    """Return the words of the lists of a prompt that name at least two of the used commands."""
    plain = re.sub(r"\([^()]*\)|<[^<>]*>|\[[^\[\]]*\]", "", prompt)
    lists = [[w for part in re.split(r"[,;:|/]|\bor\b|\band\b", line) if (w := _first_word(part))]
             for line in re.split(r"\n|(?<=[.])\s", plain)]  # fmt: skip
    lists += [[w for line in block.splitlines() if (w := _first_word(line))] for block in re.split(r"\n\s*\n", plain)]
    fitting = [words for words in lists if len({word.casefold() for word in words} & used) >= min(2, len(used))]
    listed = dict.fromkeys(word for words in fitting for word in words)
    return list(listed)[:_MOST_COMMANDS]


def _first_word(text: str) -> str:
    match = _WORD.search(text)
    return match[0] if match else ""


def _call_with(tool: OfferedTool, paid: Any) -> Any:
    """Return a call of another tool with the arguments of a paid call; None if the tool requires others."""
    name, arguments = paid
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
    except (ValueError, TypeError):
        return None
    required = list(tool.parameters.get("required") or ())
    if tool.name == name or not isinstance(given, dict) or not all(key in given for key in required):
        return None
    known = tool.parameters.get("properties") or {}
    return [tool.name, json.dumps({key: value for key, value in given.items() if key in known})]


def _verb(step: Any) -> str:
    return str(step.split(" ")[0] if isinstance(step, str) else step[0]).casefold()


def _cycle(split: _Steps, place: int, undoing: Any, times: int) -> RolloutScript:
    """Return a script that plays up to the paid step, and then undoes and repeats it, one round in each turn."""
    paid = split.steps[place - 1]
    rounds = [undoing, paid]
    size = max(1, min(2, split.pack))
    of_round = replace(split, pack=size).turns(rounds)
    shown = " and ".join(step if isinstance(step, str) else str(step[0]) for step in rounds)
    return turns_script(
        f"gives the solution's steps up to the first paid one, and then repeats {shown}",
        [*split.turns(split.steps[:place]), *of_round * times, *split.turns(split.ending)],
    )


def _goes_round(played: PlayedScript, split: _Steps, place: int, times: int) -> bool:
    """Whether the environment says the same after each round, apart from numbers and from the last round."""
    texts: list[str] = []
    messages = played.result.messages
    skipped = len(split.turns(split.steps[:place]))
    size = 1 if split.pack > 1 and isinstance(split.steps[0], str) else 2
    at = -1
    for message in messages:
        if message.get("role") == "assistant":
            at += 1
        elif at >= skipped and (at - skipped + 1) % size == 0:
            texts.append(re.sub(r"\d+", "#", str(message.get("content") or "")))
    rounds = texts[: times - 1]
    return len(set(rounds)) <= 1
