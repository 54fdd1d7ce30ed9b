"""Regular expressions of a reward, read as syntax trees: nested quantifiers, and patterns that match anywhere."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.checks.code import dotted
from prime_lab_mcp.lab.checks.smells_reach import Program, Reached

_METHODS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
_CARRIER = re.compile(r"<\\?/?\w|boxed|####|\\#\\#")


def uses(program: Program, at: Reached) -> Iterator[tuple[ast.Call, str, str, ast.expr | None]]:
    """Every use of a pattern that is a constant: (call, method, pattern, the text it is applied to)."""
    for node in at.function.nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = program.full_name(at.file, node.func)
        head, _, method = name.rpartition(".")
        if method not in _METHODS:
            continue
        if head in ("re", "regex"):
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                text = 2 if method in ("sub", "subn") else 1
                yield node, method, node.args[0].value, node.args[text] if len(node.args) > text else None
        elif isinstance(node.func, ast.Attribute):
            pattern = _compiled(program, at, node.func.value)
            if pattern is not None:
                text = 1 if method in ("sub", "subn") else 0
                yield node, method, pattern, node.args[text] if len(node.args) > text else None


def _compiled(program: Program, at: Reached, node: ast.expr) -> str | None:
    """The pattern of a module-level `NAME = re.compile("...")`, of this file or of one it imports from."""
    module, _, name = program.full_name(at.file, node).rpartition(".")
    files = program.files_of(module) if module else [at.file]
    for file in files:
        for statement in file.tree.body if file.tree is not None else ():
            if (
                isinstance(statement, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)
                and isinstance(statement.value, ast.Call)
                and (dotted(statement.value.func) or "").endswith("compile")
                and statement.value.args
                and isinstance(statement.value.args[0], ast.Constant)
                and isinstance(statement.value.args[0].value, str)
            ):
                return statement.value.args[0].value
    return None


def nested(pattern: str) -> bool:
    """A repeated part that is itself only a repetition, as in `(a+)+`: time grows as a power of the text's length."""
    tree = _tree(pattern)
    return tree is not None and any(_ambiguous(body) for body in _repeated(tree))


def _tree(pattern: str) -> Any:
    # The parser of the standard library is private since 3.11, and the public name for it warns.
    try:
        return importlib.import_module("re._parser").parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _repeated(tree: Any) -> Iterator[Any]:
    for kind, value in tree:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and str(value[1]) == "MAXREPEAT":
            yield value[2]
        yield from (body for part in _parts(value) for body in _repeated(part))


def _parts(value: Any) -> Iterator[Any]:
    if hasattr(value, "data") and hasattr(value, "getwidth"):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)


def _ambiguous(body: Any) -> bool:
    """Whether one round of a repetition can consist of another repetition and nothing else."""
    items = list(body)
    for number, (kind, value) in enumerate(items):
        rest = items[:number] + items[number + 1 :]
        if not all(_optional(item) for item in rest):
            continue
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT") and str(value[1]) == "MAXREPEAT" and value[2].getwidth()[1] > 0:
            return True
        if name == "SUBPATTERN" and _ambiguous(value[-1]):
            return True
        if name == "BRANCH" and any(_ambiguous(branch) for branch in value[1]):
            return True
    return False


def _optional(item: Any) -> bool:
    kind, value = str(item[0]), item[1]
    return kind in ("MAX_REPEAT", "MIN_REPEAT") and value[0] == 0


def anywhere(pattern: str) -> bool:
    """A pattern of digits, letters or labels alone, not tied to the end or to any word: `[A-E]`, `-?\\d+`."""
    tree = _tree(pattern)
    return tree is not None and not _tied(pattern) and not _carries(pattern) and not _required(tree)


def of_carrier(pattern: str) -> bool:
    """A pattern of a tag, a box or ####, whose first occurrence may be one of several."""
    return _carries(pattern) and not _tied(pattern) and _captures(pattern)


def _captures(pattern: str) -> bool:
    try:
        return re.compile(pattern).groups > 0
    except (re.error, OverflowError, RecursionError):
        return False


def _carries(pattern: str) -> bool:
    return _CARRIER.search(pattern) is not None


def _tied(pattern: str) -> bool:
    start = re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern)
    return start.startswith((".*", "[\\s\\S]*", "(?:.*", "^", "\\A")) or pattern.rstrip(")").endswith(("$", "\\Z"))


def _required(tree: Any) -> bool:
    """Whether every match holds a certain letter."""
    for kind, value in tree:
        name = str(kind)
        if name == "LITERAL" and chr(value).isalpha():
            return True
        if name == "SUBPATTERN" and _required(value[-1]):
            return True
        if name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0 and _required(value[2]):
            return True
    return False
