"""Finds tools that leave entries out without saying so: lists that the code cuts at a fixed length.

The code names the number (`hits[:5]`, `LIMIT 5`), and calls with many arguments show that it matters: many different
answers have exactly so many entries, and none has more. A cut that the tool's description or its answers tell, or that
an argument such as a page lifts, leaves nothing out silently.

Whether a model can still find the right answers is not known in general. It is known where a task asks how many of
these entries there are, and its gold is larger than any list that the tool returns.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.chained_calls import Call
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.reward_source import parse_source
from prime_lab_mcp.lab.rewards.tool_exploration import play_calls
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_FEWEST, _MOST = 2, 200
"""Lengths at which a cut is looked for."""
_MOST_CALLS = 80
_EACH_PROMPT = 3
"""Largest number of values of one prompt that a tool is asked for."""
_CUT = 4
"""Smallest number of different answers with exactly the length of the cut."""
_CUT_SHARE = 0.25
"""Share of the answers that must have this length. Fewer may be of this length by themselves (our choice)."""
_SAYS_SO = re.compile(
    r"(?i)\b(?:at most|up to|no more than|first|last|top|newest|latest|recent|limit\w*|pages?|paged|maximum|max|offset|"
    r"cursor|truncat\w*|sample|some of|best|nearest|closest|most)\b"
)
"""Words of a description that tell a cut."""
_TELLS_MORE = re.compile(r"(?i)\b(?:more|truncated|total|next|page|showing|omitted|remaining|has_more)\b|\.\.\.|…")
_PAGED = frozenset(
    {"page", "pages", "limit", "offset", "cursor", "start", "skip", "count", "size", "max", "maximum", "top", "after"}
    | {"before", "since", "from", "until", "first", "last", "n", "k", "number", "num", "index"}
)
"""Words in the names of arguments with which a model can see the rest."""
_NAME = re.compile(r"[A-Z][\w'’-]+(?:[ ](?:(?:of|de|van|von|the|&)[ ])*[A-Z][\w'’-]*)*")
_OPENING = re.compile(r"^(?:How|What|Which|For|In|The|When|Has|Did|On|Of|By)\s+")
_QUOTED = re.compile(r"[\"“'`]([^\"“”'`\n]{1,60})[\"”'`]")
_CODED = re.compile(r"\b(?:[A-Z]+[-_]?\d[\w-]*|\d{4}-\d{2}-\d{2}|\d{2,6}|[a-z][\w-]*[-_]\w+)\b")
_HOW_MANY = re.compile(r"(?i)\b(?:how many|number of|count of|count the)\s+((?:[\w-]+\s+){0,2}[\w-]+)")
_LIMIT = re.compile(r"(?i)\bLIMIT\s+(\d+)")
_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.):]|\|)\s*\S")


@dataclass(frozen=True, slots=True)
class CappedList:
    """A tool that returns at most `length` entries, with how often it does, and tasks whose gold counts more."""

    tool: str
    length: int
    cut: int
    answers: int
    call: str
    unreachable: tuple[tuple[int, str, str], ...]
    """Rows that ask for a count, each with its prompt and its gold, which is larger than `length`."""


async def find_capped_list(
    worker: Worker, style: AnswerStyle | None, rows: Sequence[Row], tools: Sequence[OfferedTool], source: str
) -> CappedList | None:
    """Return a tool that silently leaves entries out; None if no tool is known to do so."""
    lengths = {tool.name: cut_lengths(source, tool.name) for tool in tools}
    cutting = [tool for tool in tools if lengths[tool.name] and not _says_so(tool)]
    if not cutting or not rows:
        return None
    asked = list(_asked(rows, cutting))[:_MOST_CALLS]
    returned = await play_calls(worker, rows[0].index, [call for call, _ in asked])
    answers = [(call, value, text) for (call, value), (_, text) in zip(asked, returned, strict=False)]
    for tool in cutting:
        own = {text: value for (name, _), value, text in answers if name == tool.name and entries_in(text)}
        sizes = {text: entries_in(text) for text in own}
        longest = max(sizes.values(), default=0)
        cut = [text for text, size in sizes.items() if size == longest]
        if longest not in lengths[tool.name] or len(cut) < max(_CUT, _CUT_SHARE * len(sizes)):
            continue
        if any(_TELLS_MORE.search(_beside_entries(text)) for text in cut):
            continue
        counted = list(_counted(style, rows, tool, longest, {own[text] for text in cut}))
        calls = [(other.name, arguments(other.parameters, value)) for *_, value in counted for other in tools]
        seen = await play_calls(worker, rows[0].index, calls[:_MOST_CALLS]) if counted else []
        known = {number for _, text in seen for number in re.findall(r"\d+", text)}
        unreachable = tuple((row, prompt, gold) for row, prompt, gold, _ in counted if gold not in known)
        example = next(name for (name, text) in returned if text == cut[0])
        return CappedList(tool.name, longest, len(cut), len(sizes), example, unreachable)
    return None


def cut_lengths(source: str, tool: str) -> frozenset[int]:
    """Return the fixed lengths at which the function of a tool cuts lists. A tool's name may have a prefix."""
    tree = parse_source(source)
    if tree is None:
        return frozenset()
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (tool == node.name or tool.endswith((f"_{node.name}", f".{node.name}")))
    ]
    lengths = {n for function in functions for node in ast.walk(function) for n in _lengths(node, constants)}
    return frozenset(n for n in lengths if _FEWEST <= n <= _MOST)


def _lengths(node: ast.AST, constants: Mapping[str, int]) -> Iterator[int]:
    """Yield the length at which one expression cuts a list."""

    def value(number: ast.expr | None) -> int:
        if isinstance(number, ast.UnaryOp) and isinstance(number.op, ast.USub):
            return -value(number.operand)
        if isinstance(number, ast.Constant) and type(number.value) is int:
            return number.value
        name = number.id if isinstance(number, ast.Name) else number.attr if isinstance(number, ast.Attribute) else ""
        return constants.get(name, 0)

    if isinstance(node, ast.Slice) and node.step is None:
        if node.upper is None and value(node.lower) < 0:
            yield -value(node.lower)
        elif node.lower is None or (isinstance(node.lower, ast.Constant) and node.lower.value == 0):
            yield value(node.upper)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("head", "fetchmany", "nlargest", "nsmallest", "most_common") and node.args:
            yield value(node.args[0])
        elif name == "islice" and len(node.args) == 2:
            yield value(node.args[1])
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (int(n) for n in _LIMIT.findall(node.value))


def _says_so(tool: OfferedTool) -> bool:
    """Whether the model can know of a cut, or has an argument that lifts the cut."""
    properties = tool.parameters.get("properties") or {}
    texts = [str(schema.get("description") or "") for schema in properties.values() if isinstance(schema, Mapping)]
    words = {word for name in properties for word in re.findall(r"[a-z]+", name.casefold())}
    return not words.isdisjoint(_PAGED) or any(_SAYS_SO.search(text) for text in (tool.description, *texts))


def _asked(rows: Sequence[Row], tools: Sequence[OfferedTool]) -> Iterator[tuple[Call, str]]:
    """Yield calls of the tools with names that prompts hold, and the name of each."""
    seen: set[str] = set()
    for row in rows:
        for value in _names(prompt_of(row)):
            if value not in seen:
                seen.add(value)
                yield from (((tool.name, arguments(tool.parameters, value)), value) for tool in tools)


def _names(prompt: str) -> list[str]:
    """Return the likeliest names of a prompt: quoted ones, several capitalised words, codes, and single words last."""
    names = [_OPENING.sub("", name.strip(" .")) for name in _NAME.findall(prompt)]
    several = [name for name in names if " " in name]
    return list(dict.fromkeys((*_QUOTED.findall(prompt), *several, *_CODED.findall(prompt), *names[1:])))[:_EACH_PROMPT]


def entries_in(text: str) -> int:
    """Return how many entries a tool's answer has: of the only list of its JSON, or its lines; 0 if it is no list."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()]
        marked = sum(_BULLET.match(line) is not None for line in lines)
        return marked or (len(lines) if len(lines) > 1 else 0)
    lists = [found] if isinstance(found, list) else []
    if isinstance(found, Mapping):
        lists = [value for value in found.values() if isinstance(value, list)]
    return len(lists[0]) if len(lists) == 1 else 0


def _beside_entries(text: str) -> str:
    """Return what stands beside the entries of an answer: the keys and single values of JSON, or its other lines."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "\n".join(line for line in text.splitlines() if not _BULLET.match(line))
    if not isinstance(found, Mapping):
        return ""
    return json.dumps({key: value for key, value in found.items() if not isinstance(value, list)}, default=str)


def _counted(
    style: AnswerStyle | None, rows: Sequence[Row], tool: OfferedTool, length: int, cut: set[str]
) -> Iterator[tuple[int, str, str, str]]:
    """Yield the tasks that ask for a number of the tool's entries that exceeds the cut: row, prompt, gold, and name."""
    golds = {gold.row: gold.forms for gold in style.golds.golds} if style is not None else {}
    own = {word.rstrip("s") for word in re.findall(r"[a-z]+", f"{tool.name} {tool.description}".casefold())}
    for row in rows:
        prompt = prompt_of(row)
        asked = _HOW_MANY.search(prompt)
        gold = next((form for form in golds.get(row.index, ()) if form.isdecimal() and int(form) > length), None)
        named = next((value for value in cut if value in prompt), None)
        if asked and gold and named and asked[1].split()[0].casefold().rstrip("s") in own:
            yield row.index, prompt, gold, named
