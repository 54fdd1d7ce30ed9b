"""Plays models that try out what an environment offers, without a thought for the task.

Four models use tools: one makes the same calls with every value that a tool names or lists (a sweep), one stops at
the value to which the tool answers otherwise than to all others, one hands a tool what the tool's own answer to a
meaningless call states (or the number that lies so far from the meaningless one), and one calls a tool with every
combination of the values that two parameters name, such as every room in every slot. Each of them behaves alike in
every task, so where it earns all on every task, there is nothing to learn: the tool says what is right as often as it
is asked, or the reward asks only whether a call was made. Values that only the prompt of a task names are not tried,
because the task may be to use exactly these; they are tried in all combinations only, most of which no task asks for.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of, texts_of_task, whole_prompt
from prime_lab_mcp.lab.rewards.chained_calls import Call, takes
from prime_lab_mcp.lab.rewards.constant_commands import earned_all
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.scripts import CHATTER, PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.tool_exploration import likeliest_arguments, plausible_calls
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_FIRST, _TASKS, FEWEST_TASKS = 2, 8, 5
"""Numbers of tasks with different prompts on which a model must earn all before it is played on the others, on which
it is played in all, and on which it must be played at least."""
_SECONDS = 45.0
"""Time after which no further model is played: tool servers of rollouts (v1) start slowly."""
_MOST_TOOLS, _MOST_VALUES, _MOST_LISTS = 8, 14, 3
_MOST_LISTED = 48
"""Largest number of values that the environment itself lists (our choice)."""
_PAGE, _NEXT_PAGES = re.compile(r"(?i)page"), (2, 3, 4)
_NUMBERS = 10
_FEWEST_STOPPED = 3
"""Smallest number of calls of which one may be answered otherwise."""
_CLOSING = "Done."
_WORD = r"[\"'`]?[\w-]{1,30}[\"'`]?"
_AND = r"(?:,\s*(?:or |and )?|\s+or\s+|\s*/\s*|\s*\|\s*)"
_LIST = re.compile(
    r"(?:^|one of|either|among|out of|values?|options?|choices?|rooms?|names?|e\.g\.|such as|:)\s*[(\[]?"
    rf"((?:{_WORD}{_AND})+{_WORD})"
)
_RANGE = re.compile(
    r"\b(\d{1,3})\s*(?:to|-|\N{EN DASH}|and|\.\.)\s*(\d{1,3})\b|\b([A-Z])\s*(?:to|-|\N{EN DASH})\s*([A-Z])\b"
)
_ENTRY = re.compile(r"(?m)^\W*([\w-]{1,30})\s*(?:[:,|=\t]|\s-\s|$)")
_TOKEN = re.compile(
    r"[A-Za-z][\w-]*\d[\w-]*|(?<![\w.])-?\d+(?:\.\d+)?|(?<=[\"'`])[^\"'`\n]{1,40}(?=[\"'`])|[A-Za-z]{3,}"
)
_MEANINGLESS = (1, -987)
"""Numbers that no task asks for. A text is that of `arguments`."""
_MOST_TOKENS = 4
_DECIMALS = 6
"""Decimal places to which a sum of floating point numbers is exact enough for any answer (our choice)."""


@dataclass(frozen=True, slots=True)
class ThoughtlessModel:
    """A model that behaves alike in every task, with the rollouts in which it earned all."""

    name: str
    """What it does, as the end of "a model that ..."."""
    tried: tuple[PlayedScript, ...]


async def play_thoughtless(
    worker: Worker, rows: Sequence[Row], tools: Sequence[OfferedTool], form: AnswerWrapper
) -> tuple[ThoughtlessModel, ...]:
    """Return the first model that earned all of the weights on every task; empty if there is none.

    `form` is the form of a reply that the prompts or the code name.
    """
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) < FEWEST_TASKS or not tools:
        return ()
    deadline = time.monotonic() + _SECONDS
    shared = _shared_text(different)
    tools = tools[:_MOST_TOOLS]
    listing = [call for tool in tools if not _required(tool) for call in _pages(tool)]
    explored = (
        await play_pairs(worker, [(row.index, _script("looks around", [listing])) for row in different])
        if listing
        else []
    )
    listed = {p.row: _returned(p) for p in explored}
    # Tools that take one value come first: they delete, report or open, and their sweeps are short.
    for tool in sorted(tools, key=lambda tool: len(_required(tool))):
        for parameter in _choosing(tool):
            if time.monotonic() > deadline:
                return ()
            found = await _of_tool(worker, different, tool, parameter, shared, listing, listed, form)
            if found is not None:
                return (found,)
    for tool in tools:
        if time.monotonic() < deadline:
            found = await _everywhere(worker, different, tool, shared, listing, listed)
            if found is not None:
                return (found,)
    for extreme in _EXTREMES:
        name = f"calls the tools once with {extreme} as every number"
        calls = {row.index: _extreme_calls(tools, extreme, row) for row in different}
        if all(calls.values()) and time.monotonic() < deadline:
            _, paid = await _earning(worker, different, {row: _script(name, [made]) for row, made in calls.items()})
            if paid is not None:
                return (ThoughtlessModel(name, paid),)
    return ()


_FEWEST_COMBINED, _MOST_COMBINED = 6, 80
"""Numbers of combinations of values: fewer may all be asked for, and more take too long (our choice)."""


async def _everywhere(
    worker: Worker,
    rows: Sequence[Row],
    tool: OfferedTool,
    shared: str,
    listing: Sequence[Call],
    listed: Mapping[int, Sequence[str]],
) -> ThoughtlessModel | None:
    """Return the model that calls a tool with every combination of two parameters' values, if it earned all.

    What is done everywhere is done in the right place as well. A reward that does not ask what else was done pays it.
    """
    choosing = _choosing(tool)
    if len(choosing) < 2:
        return None
    calls: dict[int, list[Call]] = {}
    for row in rows:
        values = [_values_of_task(tool, parameter, shared, listed.get(row.index, ()), row) for parameter in choosing]
        texts = texts_of_task(row)
        given = likeliest_arguments(tool, texts)
        made: list[Call] = [
            (tool.name, given | dict(zip(choosing, chosen, strict=True))) for chosen in product(*values)
        ]
        if min(map(len, values)) < 2 or not _FEWEST_COMBINED <= len(made) <= _MOST_COMBINED:
            return None
        calls[row.index] = made
    name = f"calls {tool.name} with every combination of {' and '.join(map(repr, choosing))}"
    _, paid = await _earning(worker, rows, {row: _script(name, [listing, made]) for row, made in calls.items()})
    return ThoughtlessModel(name, paid) if paid is not None else None


def _values_of_task(tool: OfferedTool, parameter: str, shared: str, listed: Sequence[str], row: Row) -> list[Any]:
    """Return the longest list of a parameter's values that the tool, all prompts, other tools or the task's prompt
    name."""
    schema = (tool.parameters.get("properties") or {}).get(parameter) or {}
    behind = re.compile(rf"(?im)\b{re.escape(parameter)}s?\b[^:\n]{{0,30}}:\s*([^\n]+)")
    of_task: list[Any] = []
    for line in behind.findall(f"{whole_prompt(row)}\n{shared}"):
        entries = re.split(r"[,;]\s*(?:and )?", re.sub(r"\([^()]*\)", "", line.partition(". ")[0]).rstrip(". "))
        of_task = max(of_task, [_typed(entry.strip(), schema) for entry in entries if entry.strip()], key=len)
    lists = [*_named_values(tool, parameter, "")[:1], of_task, _listed_values(tool, parameter, listed)]
    return max(lists, key=len) if any(lists) else []


def _required(tool: OfferedTool) -> Sequence[str]:
    return tool.parameters.get("required") or ()


def _pages(tool: OfferedTool) -> list[Call]:
    """Return a call of a tool without arguments, and with the next numbers of its pages."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    page = next((n for n, schema in properties.items() if _PAGE.search(n) and takes(schema, "integer")), None)
    return [(tool.name, {}), *([(tool.name, {page: n}) for n in _NEXT_PAGES] if page else [])]


_EXTREMES = (-1_000_000, 1_000_000)
"""Numbers that no task asks for and that a tool should refuse."""


def _extreme_calls(tools: Sequence[OfferedTool], number: int, row: Row) -> list[Call]:
    """Return calls of the tools that take a number, with this number and with what the prompt names."""
    texts = texts_of_task(row)
    calls: list[Call] = []
    for tool in tools[:_MOST_TOOLS]:
        properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
        numbers = [name for name, schema in properties.items() if takes(schema, "integer", "number")]
        if numbers:
            given = {**likeliest_arguments(tool, texts), **dict.fromkeys(numbers, number)}
            lists = {n: v[0] for n in properties if n not in numbers and (v := _named_values(tool, n, ""))}
            calls += [(tool.name, given | values) for values in _together(lists)]
    return calls


async def play_without_answer(
    worker: Worker, style: AnswerStyle, rows: Sequence[Row], tools: Sequence[OfferedTool]
) -> tuple[PlayedScript, ...]:
    """Return rollouts of a model that calls the tools with names of the prompt and answers nothing.

    Where golds are paid as a last reply, such a rollout is paid by a reward that also reads what tools return. Calls
    that hold the gold are left out. Empty unless several tasks pay.
    """
    by_row = {row.index: row for row in rows}
    wanted: list[tuple[int, RolloutScript]] = []
    for gold in style.golds.golds[:_ANSWERLESS]:
        row = by_row.get(gold.row)
        if row is None:
            continue
        calls = plausible_calls(tools, texts_of_task(row))
        own = [
            c
            for c in calls
            if not any(form.casefold() in json.dumps(c[1], default=str).casefold() for form in gold.forms)
        ]
        if own:
            wanted.append(
                (gold.row, _script("calls the tools with names of the prompt and gives no answer", [own], CHATTER))
            )
    played = await play_pairs(worker, wanted)
    paid = [p for p in played if earned_all(p)]
    return tuple(paid) if len({p.row for p in paid}) >= _FEWEST_ANSWERLESS else ()


_ANSWERLESS, _FEWEST_ANSWERLESS = 5, 2


async def _of_tool(
    worker: Worker,
    rows: Sequence[Row],
    tool: OfferedTool,
    parameter: str,
    shared: str,
    listing: Sequence[Call],
    listed: Mapping[int, Sequence[str]],
    form: AnswerWrapper,
) -> ThoughtlessModel | None:
    """Return the first model that uses this parameter of a tool and earned all on every task; None if there is none."""
    named = _named_values(tool, parameter, shared)
    others = _others(tool, parameter)
    of_lists = {row.index: _listed_values(tool, parameter, listed.get(row.index, ())) for row in rows}
    for values in [of_lists, *({row.index: one for row in rows} for one in named)]:
        most = _MOST_LISTED if values is of_lists else _MOST_VALUES
        for other in others:
            sweeps = {row: [_call(tool, parameter, v, other) for v in some[:most]] for row, some in values.items()}
            if all(len(calls) > 1 for calls in sweeps.values()):
                found = await _of_values(worker, rows, f"{tool.name} with", parameter, sweeps, listing, form)
                if found is not None:
                    return found
    return await _told_by_error(worker, rows, tool, parameter, form)


async def _of_values(
    worker: Worker,
    rows: Sequence[Row],
    called: str,
    parameter: str,
    sweeps: Mapping[int, Sequence[Call]],
    listing: Sequence[Call],
    form: AnswerWrapper,
) -> ThoughtlessModel | None:
    """Return the model that makes all these calls, or stops at the one that is answered otherwise, if it earned all."""
    name = f"calls {called} every value of {parameter!r}"
    sweep = {row: _script(name, [listing, calls]) for row, calls in sweeps.items()}
    played, found = await _earning(worker, rows, sweep)
    if found is not None:
        return ThoughtlessModel(name, found)
    name = f"calls {called} one value of {parameter!r} after the other until the answer is another one"
    stopping = {p.row: _stopping(name, sweeps[p.row], _returned(p), form) for p in played}
    if not stopping or None in stopping.values():
        return None
    more = await play_pairs(worker, [(row.index, sweep[row.index]) for row in rows if row.index not in stopping])
    stopping |= {p.row: _stopping(name, sweeps[p.row], _returned(p), form) for p in more}
    _, found = await _earning(worker, rows, {row: script for row, script in stopping.items() if script is not None})
    return ThoughtlessModel(name, found) if found is not None else None


async def _told_by_error(
    worker: Worker, rows: Sequence[Row], tool: OfferedTool, parameter: str, form: AnswerWrapper
) -> ThoughtlessModel | None:
    """Return the model that hands a tool what the tool's answer to a meaningless call states."""
    schema = (tool.parameters.get("properties") or {}).get(parameter)
    number = takes(schema, "integer", "number")
    for value in _MEANINGLESS if number else (None,):
        call = (tool.name, arguments(tool.parameters)) if value is None else _call(tool, parameter, value)
        asked = await play_pairs(worker, [(row.index, _script("asks", [[call]])) for row in rows[:_FIRST]])
        known = {row.index: _words(whole_prompt(row)) for row in rows}
        known = {row: words | _words(json.dumps(call[1])) for row, words in known.items()}
        told = {p.row: _new_tokens("\n".join(_returned(p)), known[p.row], number) for p in asked}
        if not told or not all(told.values()):
            continue
        asked += await play_pairs(worker, [(row.index, _script("asks", [[call]])) for row in rows[_FIRST:]])
        everywhere = set.intersection(
            *(_words("\n".join(_returned(p))) for p in asked)
        )  # such as how many tries are left
        told = {p.row: _new_tokens("\n".join(_returned(p)), known[p.row] | everywhere, number) for p in asked}
        if len(told) < FEWEST_TASKS or not all(told.values()) or len({t[0] for t in told.values()}) < 2:
            continue
        for at in range(min(_MOST_TOKENS, min(map(len, told.values())))):
            for what, handed in _handed_in(value).items():
                name = f"calls {tool.name} with a meaningless value and again with {what}"
                scripts = {}
                for row, tokens in told.items():
                    stated = _typed(tokens[-1 - at], schema)
                    again = handed(stated)
                    closing = form.wrap(tokens[-1 - at] if again == stated else str(again))
                    scripts[row] = _script(name, [[call], [_call(tool, parameter, again)]], closing)
                _, found = await _earning(worker, rows, scripts)
                if found is not None:
                    return ThoughtlessModel(name, found)
    return None


def _handed_in(value: int | None) -> dict[str, Callable[[Any], Any]]:
    """Return what a model does with what an answer states, by name.

    Where `value` was a number, the answer may state how far the right one is from it.
    """
    ways: dict[str, Callable[[Any], Any]] = {"what the answer states": lambda stated: stated}
    if value is not None:
        ways["the sum of the value and what the answer states"] = lambda stated: round(value + stated, _DECIMALS)
        ways["the value less what the answer states"] = lambda stated: round(value - stated, _DECIMALS)
    return ways


async def _earning(
    worker: Worker, rows: Sequence[Row], scripts: Mapping[int, RolloutScript]
) -> tuple[list[PlayedScript], tuple[PlayedScript, ...] | None]:
    """Play one script a task. Return the rollouts of the first tasks, and all of them if they earned all."""
    wanted = [(row.index, scripts[row.index]) for row in rows if row.index in scripts]
    first = await play_pairs(worker, wanted[:_FIRST])
    if len(wanted) < FEWEST_TASKS or len(first) < _FIRST or not all(map(earned_all, first)):
        return first, None
    rest = await play_pairs(worker, wanted[_FIRST:])
    tried = (*first, *rest)
    return first, tried if len(tried) >= FEWEST_TASKS and all(map(earned_all, tried)) else None


def _script(name: str, turns: Sequence[Sequence[Call]], closing: str = _CLOSING) -> RolloutScript:
    """Return a script that makes the calls of each turn at once and then says `closing`."""
    made = [{"calls": [[tool, dict(given)] for tool, given in turn]} for turn in turns if turn]
    return RolloutScript(name, "copied", {"turns": [*made, closing], "then": "repeat"})


def _stopping(name: str, calls: Sequence[Call], answers: Sequence[str], form: AnswerWrapper) -> RolloutScript | None:
    """Return a script that makes the calls up to the one that was answered otherwise than all others; None without."""
    if len(answers) < len(calls) or len(calls) < _FEWEST_STOPPED:
        return None
    answers = answers[-len(calls) :]
    shapes = [_shape(text, call) for text, call in zip(answers, calls, strict=False)]
    odd = [n for n, shape in enumerate(shapes) if shapes.count(shape) == 1]
    if len(odd) != 1 or len(set(shapes)) != 2:
        return None
    value = str(list(calls[odd[0]][1].values())[-1])
    return _script(name, [[call] for call in calls[: odd[0] + 1]], form.wrap(value))


def _shape(text: str, call: Call) -> str:
    """Return an answer without the values of its call and without numbers."""
    for value in sorted(map(str, call[1].values()), key=len, reverse=True):
        text = text.replace(value, "*")
    return re.sub(r"\d+", "#", text).casefold()


_MOST_OTHERS = 3


def _others(tool: OfferedTool, parameter: str) -> list[dict[str, Any]]:
    """Return values of the other required parameters that name a list of their own: the first, second and third."""
    lists = {n: found[0] for n in _choosing(tool) if n != parameter and (found := _named_values(tool, n, ""))}
    return _together(lists)


def _together(lists: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the first values of all lists, their second and their third ones."""
    longest = max(map(len, lists.values()), default=1)
    return [{n: of[k % len(of)] for n, of in lists.items()} for k in range(min(_MOST_OTHERS, longest))]


def _call(tool: OfferedTool, parameter: str, value: Any, others: Mapping[str, Any] | None = None) -> Call:
    given = arguments(tool.parameters) | dict(others or {})
    given.pop(parameter, None)
    return tool.name, {**given, parameter: value}


def _choosing(tool: OfferedTool) -> list[str]:
    """Return the parameters of a tool that a model may choose: texts and numbers that the tool requires."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()
    fitting = [n for n in required if isinstance(properties.get(n), Mapping)]
    return [n for n in fitting if properties[n].get("enum") or takes(properties[n], "string", "integer", "number")][:2]


def _shared_text(rows: Sequence[Row]) -> str:
    """Return the system message, and the lines that the prompts of all these tasks have."""
    systems = [message_text(m) for m in rows[0].prompt if m.get("role") == "system"]
    prompts = [re.split(r"\n|(?<=[.?!])\s", prompt_of(row)) for row in rows]
    return "\n".join([*systems, *(line for line in prompts[0] if all(line in lines for lines in prompts))])


def _named_values(tool: OfferedTool, parameter: str, shared: str) -> list[list[Any]]:
    """Return the lists of values of a parameter that its schema, its description or all prompts name."""
    schema = (tool.parameters.get("properties") or {}).get(parameter) or {}
    if schema.get("enum"):
        return [list(schema["enum"])]
    texts = (str(schema.get("description") or ""), _about(tool, parameter), tool.description, shared)
    number = takes(schema, "integer", "number")
    lists = [[_typed(v, schema) for v in found] for text in texts for found in _lists_in(text)]
    lists = [one for one in lists if len(one) > 1 and (not number or not any(isinstance(v, str) for v in one))]
    own = [[_typed(v, schema) for v in found] for text in texts[:2] for found in _lists_in(text)]
    own = [one for one in own if one in lists]
    lists = own[:1] or sorted(lists, key=len, reverse=True)
    if number:
        lists.append(list(range(1, _NUMBERS + 1)))
    return lists[:_MOST_LISTS]


def _about(tool: OfferedTool, parameter: str) -> str:
    """Return what a tool's description says behind the name of a parameter, up to another one or the sentence's end."""
    others = [name for name in tool.parameters.get("properties") or {} if name != parameter]
    match = re.search(rf"\b{re.escape(parameter)}\b\W+(?:is|are|must be|can be)?\s*([^.\n]*)", tool.description, re.I)
    if match is None:
        return ""
    return re.split(rf"\b(?:{'|'.join(map(re.escape, others))})\b", match[1])[0] if others else match[1]


def _lists_in(text: str) -> Iterator[list[str]]:
    """Yield lists of words with commas, slashes or `or` between them, and ranges such as 1 to 5 or A to E."""
    for match in _LIST.finditer(text):
        yield [word for word in re.findall(r"[\w-]+", match[1]) if word not in ("or", "and")]
    for match in _RANGE.finditer(text):
        if match[1]:
            low, high = int(match[1]), int(match[2])
            yield [str(n) for n in range(low, min(high, low + _MOST_VALUES) + 1)]
        else:
            yield [chr(n) for n in range(ord(match[3]), ord(match[4]) + 1)]


def _listed_values(tool: OfferedTool, parameter: str, listed: Sequence[str]) -> list[Any]:
    """Return what tools without arguments list, as values of a parameter: what stands behind its name, else the
    beginnings of lines."""
    schema = (tool.parameters.get("properties") or {}).get(parameter) or {}
    number = takes(schema, "integer", "number")
    behind = re.compile(rf"(?im)^\W*{re.escape(parameter)}\s*[:=#]?\s*([\w-]{{1,30}})\b")
    values = list(dict.fromkeys(value for text in listed for value in behind.findall(text)))
    if len(values) < _FEWEST_STOPPED:
        values = list(dict.fromkeys(value for text in listed for value in _ENTRY.findall(text)))
    values = [v for v in values if v.isdigit()] if number else values
    return [_typed(value, schema) for value in values]


def _typed(value: str, schema: Any) -> Any:
    """Return a text as the type of a parameter."""
    if takes(schema, "integer", "number"):
        try:
            return int(value)
        except ValueError:
            try:
                return float(value)
            except ValueError:
                return value
    return value


def _returned(played: PlayedScript) -> list[str]:
    """Return what the calls of a rollout returned, in their order."""
    return [str(m.get("content") or "") for m in played.result.messages if m.get("role") == "tool"]


def _words(text: str) -> set[str]:
    return {token.casefold() for token in _TOKEN.findall(text)}


def _new_tokens(text: str, known: set[str], number: bool) -> list[str]:
    """Return the numbers, names and words of a text that are not known, in their order."""
    tokens = [t for t in dict.fromkeys(_TOKEN.findall(text)) if t.casefold() not in known]
    return [t for t in tokens if re.fullmatch(r"-?\d+(?:\.\d+)?", t)] if number else tokens
