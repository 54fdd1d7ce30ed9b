"""Calls the tools of an environment without a solution: with plausible arguments, and the same calls in every rollout.

`find_lasting_writes` looks for state that a rollout leaves to the next one. A scripted model makes every call twice in
a row. A call that returns the same both times, but something else in a later rollout, reads state that an earlier
rollout has changed. Whether a write explains the difference, and not a counter of rollouts, is shown by a fresh
process: rollouts with these calls alone return the same, and a rollout with all calls changes what they return.
Calls also get names that earlier calls have returned (chained_calls.py).
A tool that takes SQL is also asked to write: to make a table, to fill it, and to delete the last row of a known one.

`find_answer_key` looks for tasks whose prompt and answer stand beside each other in what a tool returns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.task_golds import prompt_of, texts_of_task
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.chained_calls import QUOTED, TOLD, Call, chained_calls, takes
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool, RolloutResult

_SECONDS = 20.0
"""Time limit in seconds for the rollouts of one process."""
_MOST_TOOLS, _MOST_CALLS = 8, 16
"""Largest number of tools that are called, and of different calls in one rollout."""
_EACH = 4
"""Largest number of calls of one tool with plausible arguments."""
_NAMED = re.compile(r"\b(?:[A-Z]+[-_]?\d[\w-]*|\d{4}-\d{2}-\d{2}|[\w.-]+@[\w.-]+|[\w-]+(?:[./][\w-]+)+)\b")
_SENTENCE = re.compile(r"\n|(?<=[.;!?])\s")
_MOST_TOLD = 12
"""Largest number of calls with the names of a sentence."""
_WORD = re.compile(r"[A-Za-z][\w'-]*")
_INTEGER = re.compile(r"(?<![\w.-])\d{1,6}(?![\w.-])")
_CATALOGUE = "SELECT name, sql FROM sqlite_master"
_LOOKS = ("example", "1", "ls")
"""What a model that understands nothing gives a tool in order to see what there is, besides `_CATALOGUE`."""
_SQL = re.compile(r"\bsql\b|query|select", re.I)
_TABLE = re.compile(r"(?i)create (?:virtual )?table (?:if not exists )?[\"'`\[]?(\w+)")
_NAMES = re.compile(r"\w[\w./-]{2,60}")
_MOST_NAMES = 12
_TAKES_SQL = re.compile(r"(?i)(?<![a-z])(?:my|postgre)?sql(?:ite)?(?![a-z])|\bSELECT\b")
_QUERY = re.compile(r"(?i)query|statement|command")
_COLUMNS = re.compile(r"\b(\w+) ?\(\w+(?:, \w+)+\)")
"""Matches a table in a prompt, such as `orders(id, status)`."""
_OWN_TABLE = "rows_of_an_earlier_rollout"
_WRITTEN_TABLES = 2
"""Largest number of known tables from which a row is deleted."""
_SHORTEST_PROMPT, _SHORTEST_ANSWER = 20, 2
_FIELD_END = re.compile(r"[\"'`|,;\t:>] ?$")
_BEFORE = 120
"""Characters before a prompt within which its answer stands beside it."""
_BESIDE = 400
"""Characters behind a prompt within which its answer stands beside it."""
_BEHIND_TITLE = 60
"""Characters behind the line of a prompt within which its answer stands beside it."""
_ECHOED = 12
"""Characters of a prompt behind such a line by which a repeated prompt is known (our choice)."""
_LABEL = re.compile(r"^(?:[*#>\s-]*)(?:[A-Za-z][\w ]{0,20}:\s+)?")
_FEWEST_WORDS, _LONGEST_QUERY = 5, 400
"""Fewest words and most characters of a prompt whose words a tool is asked for."""
_QUERIES = 6
"""Largest number of prompts whose words a tool is asked for."""
FEWEST_KEYED = 3
"""Number of tasks whose answers a tool must state beside their prompts. One or two may be examples."""


@dataclass(frozen=True, slots=True)
class LastingWrite:
    """A call whose result depends on what an earlier rollout has written, with both results."""

    row: int
    call: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Tasks whose prompt and answer stand beside each other in what one call returns."""

    call: str
    rows: tuple[int, ...]
    excerpt: str


def plausible_calls(tools: Sequence[OfferedTool], texts: Sequence[str]) -> list[Call]:
    """Return calls of the tools with arguments from the tools' descriptions and from `texts`, such as the prompt.

    The first calls of all tools precede the second ones.
    """
    per_tool = [list(islice(_calls_of(tool, texts), _EACH)) for tool in tools[:_MOST_TOOLS]]
    calls = [calls[number] for number in range(_EACH) for calls in per_tool if number < len(calls)]
    return [*calls[:_MOST_CALLS], *islice(_told_calls(tools, texts), _MOST_TOLD)]


def _told_calls(tools: Sequence[OfferedTool], texts: Sequence[str]) -> Iterator[Call]:
    """Yield calls whose arguments are the names and numbers of one sentence of the prompt, in their order.

    "Move 3 bolt-m6 from B1 to C2" gives a tool with the parameters (article, source, target, quantity) these four. Only
    tools with several text parameters are called so: the order of the names decides whether such a call does anything.
    """
    for tool in tools[:_MOST_TOOLS]:
        properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
        fitting = arguments(tool.parameters)
        names = [name for name in fitting if takes(properties.get(name), "string")]
        counts = [n for n in fitting if takes(properties.get(n), "integer", "number")]
        for sentence in _SENTENCE.split(texts[0]) if texts and len(names) > 1 else ():
            told = list(dict.fromkeys(TOLD.findall(sentence)))
            if len(told) != len(names):
                continue
            numbers = [int(n) for n in _INTEGER.findall(sentence)]
            filled = dict(zip(counts, [*numbers, *[1] * len(counts)], strict=False))
            for turn in range(len(told) if len(told) > 2 else 1):
                # Other orders than these would undo a call that moves something from one place to another.
                order = told[turn:] + told[:turn]
                yield tool.name, {**fitting, **filled, **dict(zip(names, order, strict=True))}


def _calls_of(tool: OfferedTool, texts: Sequence[str]) -> Iterator[Call]:
    """Yield different calls of one tool. The arguments of the n-th call are the n-th values of each parameter."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    fitting = arguments(tool.parameters)
    known = [name for name, schema in properties.items() if isinstance(schema, Mapping)]
    values = {name: list(dict.fromkeys(_values(properties[name], tool.description, texts))) for name in known}
    different: dict[str, Call] = {}
    for number in range(3 * _EACH):
        given = dict(fitting)
        for place, (name, found) in enumerate(values.items()):
            if found and (name in fitting or number):
                # Two parameters of the same values, such as a source and a target, get different ones.
                given[name] = found[(number + (place if len(found) > 1 else 0)) % len(found)]
        different.setdefault(json.dumps(given, sort_keys=True, default=str), (tool.name, given))
    yield from different.values()


def _values(schema: Mapping[str, Any], description: str, texts: Sequence[str]) -> Iterator[Any]:
    """Yield values of one parameter, the likeliest first."""
    kinds = schema.get("type") or [c.get("type") for c in schema.get("anyOf") or () if isinstance(c, Mapping)]
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if schema.get("enum"):
        yield from schema["enum"]
    elif "integer" in kinds or "number" in kinds:
        yield from (int(n) for text in texts for n in _INTEGER.findall(text)[:4])
        yield from (1, 2)
    elif "string" in kinds:
        own = str(schema.get("description") or "")
        yield from QUOTED.findall(own)
        named = [n for text in texts for n in _NAMED.findall(text)]
        yield from named
        if not own and not named:
            yield from QUOTED.findall(description)
        yield from (w for w in _WORD.findall(texts[0] if texts else "") if len(w) > 2)


def sql_writes(tools: Sequence[OfferedTool], texts: Sequence[str], tables: Sequence[str]) -> list[Call]:
    """Return calls of tools that take SQL: each counts rows, then writes, so that a later rollout counts other rows.

    Every write changes the number of rows each time, also where a database is kept in a file.
    """
    queries = [f"SELECT count(*) FROM {_OWN_TABLE}"]
    queries += [f"SELECT count(*) FROM {name}" for name in tables[:_WRITTEN_TABLES]]
    queries += [
        f"CREATE TABLE IF NOT EXISTS {_OWN_TABLE} (n INTEGER)",
        f"INSERT INTO {_OWN_TABLE} VALUES (1)",
    ]
    for name in tables[:_WRITTEN_TABLES]:
        queries.append(f"DELETE FROM {name} WHERE rowid = (SELECT max(rowid) FROM {name})")
    calls: list[Call] = []
    for tool in tools[:_MOST_TOOLS]:
        parameter = sql_parameter(tool)
        if parameter is not None:
            given = likeliest_arguments(tool, texts)
            calls += [(tool.name, {**given, parameter: query}) for query in queries]
    return calls


def likeliest_arguments(tool: OfferedTool, texts: Sequence[str]) -> dict[str, Any]:
    """Return arguments that fit a tool, each with its likeliest value, such as the shop that the prompt names."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    given = arguments(tool.parameters)
    likely = {n: next(iter(_values(properties[n], tool.description, texts)), None) for n in given if n in properties}
    return given | {name: value for name, value in likely.items() if value is not None}


def sql_parameter(tool: OfferedTool) -> str | None:
    """Return the name of the parameter of a tool that takes SQL; None if it has none."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    texts = [n for n, schema in properties.items() if isinstance(schema, Mapping) and schema.get("type") == "string"]
    for name in texts:
        if _TAKES_SQL.search(f"{name} {properties[name].get('description') or ''}"):
            return name
    if _TAKES_SQL.search(f"{tool.name} {tool.description}"):
        return next((n for n in texts if _QUERY.search(n)), texts[0] if len(texts) == 1 else None)
    return None


async def _tables(worker: Worker, row: int, tools: Sequence[OfferedTool], texts: Sequence[str]) -> list[str]:
    """Return the names of tables that the tools' database or the prompt lists."""
    looks = []
    for tool in tools[:_MOST_TOOLS]:
        parameter = sql_parameter(tool)
        if parameter is not None:
            given = likeliest_arguments(tool, texts)
            looks.append((tool.name, {**given, parameter: _CATALOGUE}))
    listed = (
        [name for _, text in await play_calls(worker, row, looks) for name in _TABLE.findall(text)] if looks else []
    )
    return list(dict.fromkeys((*listed, *(name for text in texts for name in _COLUMNS.findall(text)))))


async def find_lasting_writes(worker: Worker, rows: Sequence[Row], tools: Sequence[OfferedTool]) -> LastingWrite | None:
    """Return a call that reads what an earlier rollout has written; None if no call does."""
    if not rows or worker.siblings is None:
        return None
    texts = texts_of_task(rows[0])
    row = rows[0].index
    plausible = plausible_calls(tools, texts)
    returned = [text for _, text in await play_calls(worker, row, plausible)] if plausible else []
    calls = [*plausible, *chained_calls(tools, plausible, returned, texts)]
    calls += sql_writes(tools, texts, await _tables(worker, row, tools, texts))
    if not calls:
        return None
    everything = _script([call for call in calls for _ in range(2)])
    first = await _in_fresh_process(worker, row, [everything, everything])
    if len(first) < 2:
        return None
    before, after = (_returned(result) for result in first)
    if min(len(before), len(after)) < 2:
        return None
    reading = [n for n in range(len(calls)) if _reads(before, after, n)]
    if not reading:
        return None
    alone = _script([calls[n] for n in reading])
    again = await _in_fresh_process(worker, row, [alone, alone, everything, alone])
    if len(again) < 4:
        return None
    once, twice, _, later = (_returned(result) for result in again)
    for at, n in enumerate(reading):
        if at < min(len(once), len(twice), len(later)) and once[at] == twice[at] != later[at]:
            name, given = calls[n]
            return LastingWrite(row, f"{name}({json.dumps(given, default=str)})", once[at], later[at])
    return None


def _reads(before: Sequence[str], after: Sequence[str], number: int) -> bool:
    """Whether a call returned the same twice in a row in both rollouts, and something else in the later one."""
    one, two = 2 * number, 2 * number + 1
    if two >= min(len(before), len(after)):
        return False
    return before[one] == before[two] and after[one] == after[two] and before[one] != after[one]


async def find_answer_key(
    worker: Worker, style: AnswerStyle, rows: Sequence[Row], tools: Sequence[OfferedTool]
) -> AnswerKey | None:
    """Return a call that returns prompts of tasks with their answers; None if none of the usual looks does."""
    answers = {gold.row: tuple(f for f in gold.forms if len(f) >= _SHORTEST_ANSWER) for gold in style.golds.golds}
    questions = _own_questions({row.index: prompt_of(row) for row in rows if answers.get(row.index)})
    prompts = {row: _flat(text) for row, text in questions.items()}
    titles = _own_lines({row.index: prompt_of(row) for row in rows if row.index in prompts})
    if len(prompts) < FEWEST_KEYED or not tools:
        return None
    looks, queries = _looks(tools, _LOOKS, [_CATALOGUE]), _queries(list(questions.values()), tools)
    returned = await play_calls(worker, rows[0].index, [*looks, *queries])  # One rollout: a tool server starts slowly.
    first = returned[: len(looks)]
    asked = returned[len(looks) :]
    key = _key(first, prompts, answers) or _key_of_tools(queries, asked, prompts, answers)
    key = key or _key_of_titles(queries, asked, prompts, titles, answers)
    if key is not None:
        return key
    tables = list(dict.fromkeys(name for _, text in first for name in _TABLE.findall(text)))[:_MOST_NAMES]
    names = list(dict.fromkeys(name for _, text in first for name in _NAMES.findall(text)))
    names = [name for name in names if not name.isdigit()]
    # What a name suggests is looked at first, so that the limit does not leave it out.
    names.sort(key=lambda name: (_TELLING.search(name) is None, not any(mark in name for mark in "./_")))
    looks = _looks(tools, names[:_MOST_NAMES], [f"SELECT * FROM {name}" for name in tables or names[:_MOST_NAMES]])
    return _key(await play_calls(worker, rows[0].index, looks), prompts, answers)


def _own_questions(prompts: Mapping[int, str]) -> dict[int, str]:
    """Return each prompt up to the end of its question, if no other prompt has the same question, or the whole prompt.

    Data often hold the question alone, to which the prompt adds a unit or a form. Too short texts are left out.
    """
    asked = {row: prompt[: prompt.rfind("?") + 1].rpartition("\n\n")[2] for row, prompt in prompts.items()}
    counted = Counter(map(_flat, asked.values()))
    texts = {
        row: text if counted[_flat(text)] == 1 and len(text.split()) >= _FEWEST_WORDS else prompts[row]
        for row, text in asked.items()
    }
    return {row: text for row, text in texts.items() if len(_flat(text)) >= _SHORTEST_PROMPT}


def _own_lines(prompts: Mapping[int, str]) -> dict[int, str]:
    """Return of each prompt the first line that is long enough and stands in no other prompt, without its label.

    An archive often lists records by their title alone, such as the subject of a ticket.
    """
    lines = {row: [_LABEL.sub("", line.strip()) for line in text.splitlines()] for row, text in prompts.items()}
    counted = Counter(flat for own in lines.values() for flat in set(map(_flat, own)))
    fitting = {
        row: [_flat(line) for line in own if len(line) >= _SHORTEST_PROMPT and counted[_flat(line)] == 1]
        for row, own in lines.items()
        if len(own) > 1
    }
    return {row: own[0] for row, own in fitting.items() if own and len(own[0].split()) >= _FEWEST_WORDS - 1}


def _key_of_titles(
    calls: Sequence[Call],
    returned: Sequence[tuple[str, str]],
    prompts: Mapping[int, str],
    titles: Mapping[int, str],
    answers: Mapping[int, Sequence[str]],
) -> AnswerKey | None:
    """Return a tool that lists the lines of prompts, each with its answer as the next of all known answers.

    A line that the prompt's next words follow is what the tool was asked for, and not what it found.
    """
    known = {_flat(form) for row in titles for form in answers[row]}
    told = re.compile("|".join(rf"(?<!\w){re.escape(form)}(?!\w)" for form in sorted(known, key=len, reverse=True)))
    for call, text in _told_by_tool(calls, returned) if len(known) >= FEWEST_KEYED else ():
        flat = _flat(text)
        stated: list[tuple[int, str]] = []
        for row, title in titles.items():
            following = prompts[row].partition(title)[2][:_ECHOED]
            at = flat.find(title)
            while at >= 0 and following and flat.startswith(following, at + len(title)):
                at = flat.find(title, at + 1)
            behind = told.search(flat, at + len(title), at + len(title) + _BEHIND_TITLE) if at >= 0 else None
            if behind is not None and behind[0] in map(_flat, answers[row]):
                stated.append((row, flat[at : behind.end()]))
        if len({tuple(answers[row]) for row, _ in stated}) >= FEWEST_KEYED:
            return AnswerKey(call, tuple(row for row, _ in stated), stated[0][1])
    return None


def _queries(texts: Sequence[str], tools: Sequence[OfferedTool]) -> list[Call]:
    """Return calls that ask every tool for words of some questions.

    The first and the last word of a question are left out. So a tool that repeats what it was asked for does not return
    the question.
    """
    few = [text for text in texts if len(text.split()) >= _FEWEST_WORDS and len(text) <= _LONGEST_QUERY][:_QUERIES]
    queries = [" ".join(text.split()[1:-1]) for text in few]
    return [call for call in _looks(tools, queries, ()) if any(query in call[1].values() for query in queries)]


def _key_of_tools(
    calls: Sequence[Call],
    returned: Sequence[tuple[str, str]],
    prompts: Mapping[int, str],
    answers: Mapping[int, Sequence[str]],
) -> AnswerKey | None:
    """Return a tool that returned the prompts of tasks with their answers, in all of its calls together."""
    found = (_key([told], prompts, answers) for told in _told_by_tool(calls, returned))
    return next((key for key in found if key is not None), None)


def _told_by_tool(calls: Sequence[Call], returned: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the first call of each tool with all that the tool returned."""
    for tool in dict.fromkeys(name for name, _ in calls):
        of_tool = [pair for (name, _), pair in zip(calls, returned, strict=False) if name == tool]
        if of_tool:
            yield of_tool[0][0], "\n\n".join(text for _, text in of_tool)


_TELLING = re.compile(r"answer|gold|eval|solution|label|test|key|expect|quiz", re.I)


def _looks(tools: Sequence[OfferedTool], texts: Sequence[str], queries: Sequence[str]) -> list[Call]:
    """Return calls of every tool: with `queries` if its name or arguments are about SQL, else with `texts`."""
    calls: dict[str, Call] = {}
    for tool in tools[:_MOST_TOOLS]:
        about = f"{tool.name} {json.dumps(tool.parameters, default=str)}"
        for text in queries if _SQL.search(about) else texts:
            given = arguments(tool.parameters, text)
            calls.setdefault(f"{tool.name} {json.dumps(given, sort_keys=True, default=str)}", (tool.name, given))
    return list(calls.values())


def _key(
    returned: Sequence[tuple[str, str]], prompts: Mapping[int, str], answers: Mapping[int, Sequence[str]]
) -> AnswerKey | None:
    for call, text in returned:
        flat = _flat(text)
        stated: list[tuple[int, str]] = []
        for row, prompt in prompts.items():
            at = flat.find(prompt)
            beside = flat[at + len(prompt) : at + len(prompt) + _BESIDE] if at >= 0 else ""
            # In a row of data, the answer may also precede the prompt.
            beside += f" {flat[max(0, at - _BEFORE) : at]}" if at >= 0 and _FIELD_END.search(flat[:at]) else ""
            if any(re.search(rf"(?<!\w){re.escape(_flat(a))}(?!\w)", beside) for a in answers[row]):
                stated.append((row, flat[at : at + len(prompt) + 60]))
        if len({tuple(answers[row]) for row, _ in stated}) >= FEWEST_KEYED:
            return AnswerKey(call, tuple(row for row, _ in stated), stated[0][1])
    return None


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


def _script(calls: Sequence[Call]) -> RolloutScript:
    turns = [{"calls": [[name, dict(given)] for name, given in calls]}]
    return RolloutScript("calls the tools with plausible arguments", "copied", {"turns": turns, "then": "silence"})


async def play_calls(worker: Worker, row: int, calls: Sequence[Call]) -> list[tuple[str, str]]:
    """Make calls in one rollout, and return each with what came back."""
    plays = [scripts.as_play(_script(calls), row)]
    try:
        rollouts = await scripts.play_started(worker, plays, seconds=_SECONDS)
    except LabError:
        return []  # The rules about rollouts report an error that breaks the process.
    names = [f"{name}({json.dumps(given, default=str)})" for name, given in calls]
    return [pair for result in rollouts.results for pair in zip(names, _returned(result), strict=False)]


async def _in_fresh_process(worker: Worker, row: int, wanted: Sequence[RolloutScript]) -> list[RolloutResult]:
    """Play scripts one after the other in a fresh process. Shorter than `wanted` if a rollout was slow or not run."""
    try:
        async with worker.in_another_process() as other:
            await other.close()  # A worker from the pool may already have played rollouts.
            try:
                plays = [scripts.as_play(script, row) for script in wanted]
                rollouts = await other.rollout(plays, seconds=_SECONDS, held=True)
            finally:
                await other.close()
    except LabError:
        return []
    return [r for r in rollouts.results if r.end not in ("not-run", "slow")]


def _returned(result: RolloutResult) -> list[str]:
    """Return what the calls of a rollout returned, in the order of the calls."""
    ids = [str(c.get("id")) for m in result.messages if m.get("role") == "assistant" for c in m.get("tool_calls") or ()]
    by_id = {
        str(m.get("tool_call_id")): str(m.get("content") or "") for m in result.messages if m.get("role") == "tool"
    }
    return [by_id.get(i, "") for i in ids]


def offered_tools(played: Sequence[PlayedScript]) -> Sequence[OfferedTool]:
    """Return the tools that an environment offered in rollouts."""
    return next((p.result.tools for p in played if p.result.tools), ())
