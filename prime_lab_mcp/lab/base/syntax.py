"""Parses Python source safely when several threads parse at the same time, and reads names of syntax nodes.

CPython 3.11.7 counts the depth of syntax trees for all threads together, so a parse can fail with a SystemError while
another thread parses (https://github.com/python/cpython/issues/106905). A second attempt succeeds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TRIES = 5


def parse_python(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Parse source code like `ast.parse`. Raises SyntaxError, ValueError or RecursionError.

    CPython's parser reports code that is nested too deeply as a MemoryError.
    """
    try:
        return retry_parsing(lambda: ast.parse(source, filename=filename))
    except MemoryError as error:
        raise RecursionError("the code is nested too deeply to be parsed") from error


def retry_parsing(parse: Callable[[], T]) -> T:
    """Return the result of `parse`. After a SystemError `parse` is called again, up to five times in total."""
    for _ in range(_TRIES - 1):
        try:
            return parse()
        except SystemError:
            continue
    return parse()


def last_name(node: ast.AST | None) -> str:
    """Return the last name of a variable or attribute, such as `now` of `datetime.now`; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def called_name(node: ast.AST) -> str:
    """Return the last name of the function that an expression calls; empty for other expressions."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""
