"""Parses Python source safely when several threads parse at the same time, bounds how deep code and values nest, and
reads names of syntax nodes.

CPython 3.11.7 counts the depth of syntax trees for all threads together, so a parse can fail with a SystemError while
another thread parses (https://github.com/python/cpython/issues/106905). A second attempt succeeds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_TRIES = 5
MOST_LEVELS = 200
"""Levels of a syntax tree, as many as Python's parser has of brackets (MAXLEVEL of tokenizer.h, CPython 3.11). Readings
of code follow expressions with up to four calls a level, and Python ends a thousand calls within one another. Of 16,504
files of installed packages, two are deeper, and both are data."""
MOST_NESTED = 100
"""Levels of tables and lists in arguments and in TOML files. Pydantic 2 writes 255 levels at most."""


def parse_python(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Parse source code like `ast.parse`. Raises SyntaxError, ValueError or RecursionError.

    CPython's parser reports code that is nested too deeply as a MemoryError or a RecursionError. Code that Python still
    runs, but whose tree is too deep for the readings, is refused here, so that no reading ends before the code does.
    """
    try:
        tree = retry_parsing(lambda: ast.parse(source, filename=filename))
    except (MemoryError, RecursionError) as error:
        raise RecursionError("the code is nested too deeply to be parsed") from error
    if _nests_deeper(tree, MOST_LEVELS, ast.iter_child_nodes):
        raise RecursionError(f"its code nests deeper than {MOST_LEVELS} levels, and no check reads what it does")
    return tree


def nests_too_deeply(value: Any) -> bool:
    """True if a value of tables and lists has more than `MOST_NESTED` levels, at which recursions over it may end."""
    return _nests_deeper(value, MOST_NESTED, _inner_values)


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _nests_deeper(root: Any, levels: int, inner: Callable[[Any], Iterable[Any]]) -> bool:
    level = [root]
    for _ in range(levels):
        level = [child for parent in level for child in inner(parent)]
        if not level:
            return False
    return True


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


def named_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a function that have a value each: all but those of `*` and `**`."""
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def defaults_of(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Yield the parameters of a function that have a default, each with its default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    yield from zip(positional[::-1], arguments.defaults[::-1], strict=False)
    yield from ((a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None)


def parameter_names(function: ast.AST) -> list[str]:
    """Return the names of all parameters of a function, those of `*` and `**` last; none for other nodes."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return []
    arguments = function.args
    gathered = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [a.arg for a in (*named_parameters(arguments), *gathered)]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of the functions and classes inside of it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)
