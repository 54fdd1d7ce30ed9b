"""Plays parts of solutions: their first turns alone, a paid turn again and again, and the same turns with other signs.

A game may pay for an event, such as a delivery, each time that the event happens, so that one parcel that is delivered
several times is paid like all of them. It may divide by what was tried instead of by what was asked for, so that one
right answer is enough. And it may take a negative number where only a quantity makes sense: with its two ends
exchanged as well, a transfer of a negative amount leads to the same end, and costs nothing or cannot run out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript, turn_of, turns_script
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE
from prime_lab_mcp.lab.rewards.undone_turns import play_undone
from prime_lab_mcp.lab.worker.child.solutions import CLOSING
from prime_lab_mcp.lab.worker.host import Worker

TASKS, FEW_TASKS = 3, 2
"""Number of tasks whose solution is played in parts: usually, and where a rollout takes long."""
_FEWEST_TURNS, _MOST_TURNS = 4, 30
_BEFORE = 6
"""Number of different turns before a paid one that are tried as the other half of a cycle."""
_MORE_TURNS = 8
"""Number of turns that a rollout with a repeated part may have beyond the solution's."""
_FIRST_PART, _SEARCHED_PART = 1 / 3, 2 / 3
"""Largest part of a solution whose turns should not earn all, and part in which the first paid turn is looked for (our
choice)."""
_GOOD_SHARE = 0.8
"""Share of what the best solution earned from which a solution counts (our choice). Where each turn costs a little, a
task with a long way earns less; a part is compared with the solution of its own task."""
_LONG_MS, _VERY_LONG_MS = 400.0, 6000.0
"""Durations of a solution's rollout in milliseconds above which parts are played on few tasks, and on none."""
_NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w.]*\d)")

_ALIKE = re.compile(r"\b([A-Za-z]?\d{1,3})\b([ ,]+(?:and |to |with )?)([A-Za-z]?\d{1,3})\b")
"""Two numbered things that a turn names, such as `FLIP 1 4`."""

_WORDS_BETWEEN = re.compile(r"\b([A-Za-z]\w*)\b([ ,>-]+(?:to |and |with |into )?)([A-Za-z]\w*)\b(?=[^\n]*\d)")
"""Two names that a turn names before a number, such as `MOVE A B 5`."""
_SIGNED = re.compile(r"(?i)\b(?:negative|minus|signed|delta|offset)\b")
"""Words of environments in which a number may have a sign."""

PartKind = Literal["repeated", "first", "negative", "turned", "same", "undone"]


@dataclass(frozen=True, slots=True)
class PaidPart:
    """A part or a changed copy of one task's solution that earned as much as the solution; a cycle whose turns cost
    something may have earned a little less."""

    kind: PartKind
    played: PlayedScript
    solution: float


@dataclass(frozen=True, slots=True)
class SolutionParts:
    """What parts of solutions earned. `tried` maps a kind to the number of tasks on which it was tried."""

    paid: tuple[PaidPart, ...] = ()
    tried: tuple[tuple[PartKind, int], ...] = ()


async def play_parts(worker: Worker, solved: Solved, prompts: Mapping[int, str]) -> SolutionParts:
    """Play parts of the solutions of some tasks, of those with different turns. `prompts` maps tasks to all messages
    of their prompts."""
    best = solved.best
    full = [p for p in solved.scored if best > EPSILON and (p.result.reward or 0.0) >= _GOOD_SHARE * best - EPSILON]
    chosen = list({json.dumps(_turns(p)): p for p in full}.values())
    if not chosen:
        return SolutionParts()
    times = sorted(p.result.ms for p in chosen)
    usual = times[len(times) // 2]
    paid: list[PaidPart] = []
    counts: dict[PartKind, int] = {}
    changes: tuple[tuple[PartKind, Callable[[Sequence[Any]], list[Any]]], ...] = (
        ("negative", _negated),
        ("turned", _turned),
        ("same", _named_twice),
    )
    few = chosen[: FEW_TASKS if usual > _LONG_MS else TASKS]
    for kind, changed in changes:
        signed = kind == "turned" and any(_SIGNED.search(f"{prompts.get(p.row)} {_said(p)}") for p in few)
        found, counts[kind] = await _with_changes(worker, [] if signed else few, kind, changed)
        paid += found
    texts = [p for p in chosen if _FEWEST_TURNS <= len(_turns(p)) <= _MOST_TURNS]
    with_calls = texts[:FEW_TASKS]
    texts = [p for p in texts if usual <= _LONG_MS or _spoken(p)]  # Tool servers make rollouts slow.
    texts = sorted(texts, key=lambda p: len(_turns(p)))[: FEW_TASKS if usual > _LONG_MS else TASKS]
    if usual > _VERY_LONG_MS or len(texts) < FEW_TASKS:
        undone = [] if paid or usual > _VERY_LONG_MS else await _undone(worker, with_calls, prompts, counts)
        return SolutionParts((*paid, *undone), tuple(counts.items()))
    ends = {json.dumps(_turns(p)[-1]) for p in texts}
    closing = _turns(texts[0])[-1:] if len(ends) == 1 else []
    first, step = await _first_turns(worker, texts[0], closing)
    if first is not None:
        others = [(await _first_turns(worker, p, closing)) for p in texts[1:]]
        paid += [part for part in (first, *(part for part, _ in others)) if part is not None]
        counts["first"] = len(texts)
    elif step is not None:
        paid_first = _turns(texts[0])[step - 1]
        again: list[tuple[PlayedScript, int | None]] = [(texts[0], step)]
        for p in texts[1:]:
            slow = usual > _LONG_MS
            again.append((p, _alike(p, paid_first) if slow else (await _first_turns(worker, p, closing))[1]))
        repeated = [await _repeated(worker, p, n) for p, n in again if n is not None]
        paid += [part for part in repeated if part is not None]
        counts["repeated"] = len(again)
    if not paid:
        paid += await _undone(worker, texts, prompts, counts)
    return SolutionParts(tuple(paid), tuple(counts.items()))


async def _undone(
    worker: Worker, solutions: Sequence[PlayedScript], prompts: Mapping[int, str], counts: dict[PartKind, int]
) -> list[PaidPart]:
    """Return the cycles that undo a paid turn and earn about as much as the solution. `counts` gets the number of
    tasks."""
    undone, counts["undone"] = await play_undone(worker, solutions, prompts)
    earned = {solution.row: solution.result.reward or 0.0 for solution in solutions}
    return [PaidPart("undone", played, earned[played.row]) for played in undone]


def _turns(played: PlayedScript) -> list[Any]:
    """Return the turns of a solution, without the closing one that ends its rollout."""
    turns = [turn_of(m) for m in played.result.messages if m.get("role") == "assistant"]
    return turns[:-1] if turns[1:] and turns[-1] == CLOSING else turns


def spoken_turns(solved: Solved) -> list[str]:
    """Return the texts of all turns of the solutions that earned as much as the best one."""
    full = FULL_SHARE * solved.best - EPSILON
    paid = [p for p in solved.scored if solved.best > EPSILON and (p.result.reward or 0.0) >= full]
    return [turn for p in paid for turn in _turns(p) if isinstance(turn, str)]


def _spoken(played: PlayedScript) -> bool:
    """Whether all turns of a solution are texts."""
    return all(isinstance(turn, str) for turn in _turns(played))


async def _first_turns(
    worker: Worker, solution: PlayedScript, closing: list[Any]
) -> tuple[PaidPart | None, int | None]:
    """Play the first turns of a solution. Return those that earned all, and the number of the turn that is paid first.

    Only a small part of the solution counts; the number is None if nothing or all is paid at once. `closing` is the
    last turn, such as `FINISHED`, if it is the same in every task.
    """
    turns, whole = _turns(solution), solution.result.reward or 0.0
    starts = [_start(turns, n) for n in range(1, math.ceil(_SEARCHED_PART * len(turns)))]
    few = int(len(turns) * _FIRST_PART)
    closed = [_start(turns, n, closing) for n in range(1, few + 1)] if closing else []
    played = await play_pairs(worker, [(solution.row, script) for script in [*starts, *closed]])
    if len(played) < len(starts) + len(closed):
        return None, None
    full = FULL_SHARE * whole - EPSILON
    for p in (*played[:few], *played[len(starts) :]):
        if p.scored and (p.result.reward or 0.0) >= full:
            return PaidPart("first", p, whole), None
    earned = [p.result.reward or 0.0 for p in played[: len(starts)]]
    return None, next((n for n, e in enumerate(earned, start=1) if _gain(earned, n) > 0 and e < full), None)


def _start(turns: Sequence[Any], number: int, closing: Sequence[Any] = ()) -> RolloutScript:
    then = ", then the last one" if closing else ""
    return turns_script(
        f"gives the first {number} of {len(turns)} turns of the solution{then}", [*turns[:number], *closing]
    )


def _alike(solution: PlayedScript, paid: Any) -> int | None:
    """Return the number of a solution's first turn with the command of another solution's paid turn."""
    verb = _verb(paid)
    return next((n for n, turn in enumerate(_turns(solution)[:-1], start=1) if verb and _verb(turn) == verb), None)


def _verb(turn: Any) -> str:
    """Return the first word of a turn's last line, or the names of the tools that a turn calls."""
    if not isinstance(turn, str):
        return ",".join(str(name) for name, _ in turn["calls"])
    lines = [line for line in turn.splitlines() if line.strip()]
    words = re.findall(r"\w+", lines[-1]) if lines else []
    return words[0].casefold() if words else ""


async def _repeated(worker: Worker, solution: PlayedScript, step: int) -> PaidPart | None:
    """Repeat the turn with this number, alone and with each turn before it. Return what then earned all.

    The turns up to this one must have earned a part and not all.
    """
    turns, whole = _turns(solution), solution.result.reward or 0.0
    scripts = [_start(turns, step), *_cycles(turns, step)]
    start, *again = await play_pairs(worker, [(solution.row, script) for script in scripts]) or [solution]
    full = FULL_SHARE * whole - EPSILON
    if not EPSILON < (start.result.reward or 0.0) < full:
        return None
    return next((PaidPart("repeated", p, whole) for p in again if p.scored and (p.result.reward or 0.0) >= full), None)


def _gain(earned: Sequence[float], turn: int) -> float:
    """Return what a turn, counted from 1, has added to the reward."""
    gain = earned[turn - 1] - (earned[turn - 2] if turn > 1 else 0.0)
    return gain if gain > EPSILON else 0.0


def _cycles(turns: Sequence[Any], step: int) -> Iterator[RolloutScript]:
    """Yield scripts that repeat the turn that was paid first, alone and with each of the turns before it.

    What is left out must have turns that the repeated part lacks.
    """
    paid = turns[step - 1]
    # A long way of equal turns may lie between the turn that undoes and the paid one.
    before = list({json.dumps(turn): turn for turn in reversed(turns[: step - 1])}.values())
    cycles = [[paid], *([turn, paid] for turn in before[:_BEFORE])]
    for cycle in {json.dumps(c): c for c in cycles}.values():
        if all(turn in cycle for turn in turns[step:]):
            continue
        times = (len(turns) + _MORE_TURNS) // len(cycle)
        name = "gives the solution's turns up to the first paid one, and repeats " + (
            "this one" if len(cycle) == 1 else "two of them"
        )
        yield turns_script(name, [*turns[:step], *cycle * times])


_CHANGED: dict[PartKind, str] = {
    "negative": "gives the solution's turns with negative numbers",
    "turned": "gives the solution's turns with negative numbers and with their two ends exchanged",
    "same": "gives the solution's turns with the same thing twice",
}


async def _with_changes(
    worker: Worker, solutions: Sequence[PlayedScript], kind: PartKind, changed: Callable[[Sequence[Any]], list[Any]]
) -> tuple[list[PaidPart], int]:
    """Play solutions with changed turns. Return those that earned all although the environment answered otherwise.

    Where the environment answers as it did to the solution, it reads no sign. Where other numbers earn all as well,
    numbers do not count.
    """
    pairs = [(p, changed(_turns(p)), _enlarged(_turns(p))) for p in solutions]
    pairs = [(p, negative, larger) for p, negative, larger in pairs if negative != _turns(p)]
    if not pairs:
        return [], 0
    plays = [(p.row, turns_script(_CHANGED[kind], n)) for p, n, _ in pairs]
    plays += [(p.row, turns_script("gives the solution's turns with other numbers", more)) for p, _, more in pairs]
    played = await play_pairs(worker, plays)
    if len(played) < len(plays):
        return [], 0
    found = []
    for (p, _, _), negative, larger in zip(pairs, played, played[len(pairs) :], strict=False):
        whole = p.result.reward or 0.0
        paid = negative.scored and (negative.result.reward or 0.0) >= FULL_SHARE * whole - EPSILON
        alike = (larger.result.reward or 0.0) >= FULL_SHARE * whole - EPSILON
        if paid and not alike and _answers(negative) != _answers(p):
            found.append(PaidPart(kind, negative, whole))
    return found, len(pairs)


def _said(played: PlayedScript) -> str:
    """Return what the environment says to the model, and the descriptions of its tools."""
    texts = [str(m.get("content") or "") for m in played.result.messages if m.get("role") != "assistant"]
    return "\n".join([*texts, *(f"{tool.description} {json.dumps(tool.parameters)}" for tool in played.result.tools)])


def _answers(played: PlayedScript) -> list[str]:
    """Return what the environment and its tools said after the first reply."""
    messages = list(played.result.messages)
    first = next((n for n, m in enumerate(messages) if m.get("role") == "assistant"), len(messages))
    return [str(m.get("content")) for m in messages[first:] if m.get("role") != "assistant"]


def _negated(turns: Sequence[Any]) -> list[Any]:
    return [_with_numbers(turn, lambda number: -number) for turn in turns]


def _turned(turns: Sequence[Any]) -> list[Any]:
    """Return turns with negative numbers and with two names exchanged; the same turns if none has two."""
    exchanged = [_with_ends_exchanged(turn) for turn in turns]
    if all(new == turn for new, turn in zip(exchanged, turns, strict=True)):
        return list(turns)
    pairs = zip(exchanged, turns, strict=True)
    return [_with_numbers(new, lambda number: -number) if new != turn else turn for new, turn in pairs]


def _with_ends_exchanged(turn: Any) -> Any:
    """Return a turn that has a number with its two names exchanged: of its text, or the only two texts of a call."""
    if isinstance(turn, str):
        verb, space, rest = turn.partition(" ")
        return verb + space + _WORDS_BETWEEN.sub(r"\3\2\1", rest, count=1)
    calls = []
    for name, arguments in turn["calls"]:
        given = _read(arguments)
        texts = [k for k, v in given.items() if isinstance(v, str)]
        if len(texts) == 2 and any(type(v) is int and v > 0 for v in given.values()):
            one, two = texts
            given = {**given, one: given[two], two: given[one]}
            calls.append([name, json.dumps(given) if isinstance(arguments, str) else given])
        else:
            calls.append([name, arguments])
    return {**turn, "calls": calls}


def _named_twice(turns: Sequence[Any]) -> list[Any]:
    """Return turns that name the first of two numbered things twice."""
    return [_ALIKE.sub(r"\1\2\1", turn) if isinstance(turn, str) else turn for turn in turns]


def _enlarged(turns: Sequence[Any]) -> list[Any]:
    return [_with_numbers(turn, lambda number: 3 * number + 7) for turn in turns]


def _with_numbers(turn: Any, change: Callable[[int], int]) -> Any:
    """Return a turn with other numbers: in its text, or as the arguments of its calls that are numbers."""
    if isinstance(turn, str):
        return _NUMBER.sub(lambda match: str(change(int(match[0]))), turn)
    return {**turn, "calls": [[name, _arguments_with(arguments, change)] for name, arguments in turn["calls"]]}


def _arguments_with(arguments: Any, change: Callable[[int], int]) -> Any:
    """Return the arguments of a call with other whole numbers, in the form in which they are given."""
    given = _read(arguments)
    numbers = {k: change(v) for k, v in given.items() if type(v) is int and v > 0}
    if not numbers:
        return arguments
    return json.dumps({**given, **numbers}) if isinstance(arguments, str) else {**given, **numbers}


def _read(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call as an object; an empty one if they are none."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
