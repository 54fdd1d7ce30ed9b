"""The program of a reply: what stands in its one Python code block. Read, never run, here."""

from __future__ import annotations

import ast
import re
import warnings

LONGEST = 50_000
"""Characters of a program."""
FENCE = "```"
_LABELS = frozenset({"python", "python3", "py"})
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.I)


def program(reply: str) -> str | None:
    """The code of the reply's Python block; None when there is none, one that is not closed, or several that differ.

    Blocks of other languages, and whatever stands in a thought, do not count.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    parts = said.split(FENCE)
    if len(parts) % 2 == 0:
        return None
    blocks = [block.partition("\n") for block in parts[1::2]]
    found = {code.strip("\n") for label, _, code in blocks if label.strip().lower() in _LABELS and code.strip()}
    code = found.pop() if len(found) == 1 else ""
    return code if code and len(code) <= LONGEST else None


def is_python(code: str) -> bool:
    """The code parses."""
    return parsed(code) is not None


def parsed(code: str) -> ast.Module | None:
    """The syntax tree of the code; None when it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
