"""Makes calls of tools with what earlier calls have returned, such as a number of an article that a bin holds.

A tool that changes something often takes names that no prompt states: a list or a search returns them. The calls here
use such a name together with the argument of the call that returned it, and with names of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, zip_longest
from typing import Any

from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.scoring import OfferedTool

Call = tuple[str, Mapping[str, Any]]
TOLD = re.compile(r"(?<![\w.-])(?=[\w./@-]*[A-Za-z])(?=[\w./@-]*[\d_/@-])[A-Za-z\d][\w./@-]*\w")
"""A name in a sentence: letters with a digit, a dash or another mark, such as B1, bolt-m6 or notes/a.txt."""
QUOTED = re.compile(r"[\"“'`]([^\"“”'`\n]{1,40})[\"”'`]")
"""A short text in quotes of a prompt or of a description."""
_MOST_CALLS, _MOST_NAMES, _MOST_OTHERS = 16, 3, 3
"""Largest number of calls, of names from one result, and of names from the prompt beside one of these."""
_MOST_TEXTS = 3
"""Largest number of text parameters of a tool that is called so."""


def takes(schema: Any, *types: str) -> bool:
    """Whether a parameter takes values of one of these JSON types and names no values of its own."""
    if not isinstance(schema, Mapping) or schema.get("enum"):
        return False
    kinds = [schema.get("type"), *(c.get("type") for c in schema.get("anyOf") or () if isinstance(c, Mapping))]
    return any(kind in types for kind in kinds)


def chained_calls(
    tools: Sequence[OfferedTool], made: Sequence[Call], returned: Sequence[str], texts: Sequence[str]
) -> list[Call]:
    """Return calls with names from what `made` calls have returned, with the arguments of these and with `texts`.

    Calls that follow different results alternate.
    """
    told = list(dict.fromkeys(name for text in texts for name in TOLD.findall(text)))
    chains = [
        _calls_after(tools, given, result, told)
        for (_, given), result in zip(made, returned, strict=False)
        if TOLD.search(result)
    ]
    calls: list[Call] = []
    for together in zip_longest(*chains):
        for call in together:
            if call is not None and call not in made and call not in calls and len(calls) < _MOST_CALLS:
                calls.append(call)
    return calls


def _calls_after(
    tools: Sequence[OfferedTool], given: Mapping[str, Any], result: str, told: Sequence[str]
) -> Iterator[Call]:
    """Yield calls with the names of one result, beside the argument that led to them and names of the prompt."""
    asked = [value for value in given.values() if isinstance(value, str) and TOLD.fullmatch(value)]
    found = [name for name in dict.fromkeys(TOLD.findall(result)) if name not in asked][:_MOST_NAMES]
    others = [name for name in told if name not in asked and name not in found][:_MOST_OTHERS]
    for name in found:
        for tool in tools:
            properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
            fitting = arguments(tool.parameters)
            filled = {n: 1 for n in fitting if takes(properties.get(n), "integer", "number")}
            texts = [n for n in fitting if takes(properties.get(n), "string")]
            if not 0 < len(texts) <= _MOST_TEXTS:
                continue
            for values in permutations([name, *asked[:1], *others], len(texts)):
                if name in values and all(_fits(value, properties[n]) for n, value in zip(texts, values, strict=True)):
                    yield tool.name, {**fitting, **filled, **dict(zip(texts, values, strict=True))}


def _fits(value: str, schema: Mapping[str, Any]) -> bool:
    """Whether a value looks like an example in the description of its parameter, if this has one."""
    examples = [text for text in QUOTED.findall(str(schema.get("description") or "")) if TOLD.fullmatch(text)]
    return not examples or any(_shape(value) == _shape(example) for example in examples)


def _shape(text: str) -> str:
    """Return the marks of a name, with `x` for what stands between them: `x-x` for `WS-08` and `GL-PU`."""
    return re.sub(r"[A-Za-z\d]+", "x", text)
