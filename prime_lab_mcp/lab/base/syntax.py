"""Parsing of Python in several threads.

CPython counts the depth of a syntax tree for all threads together, so a parse can fail with a SystemError while another
thread parses (https://github.com/python/cpython/issues/106905, seen with 3.11.7). The same parse succeeds afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TRIES = 5


def parse_python(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """`ast.parse`. Raises SyntaxError, ValueError, RecursionError, MemoryError."""
    return retry_parsing(lambda: ast.parse(source, filename=filename))


def retry_parsing(parse: Callable[[], T]) -> T:
    """Call a function that parses Python, and call again after a SystemError of the parser."""
    for _ in range(_TRIES - 1):
        try:
            return parse()
        except SystemError:
            continue
    return parse()
