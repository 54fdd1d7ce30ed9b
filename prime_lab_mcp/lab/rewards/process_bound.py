"""Whether a reward's code reads anything that differs from process to process: what makes trying it in two worthwhile.

A second process costs seconds of import, so it is started only where the source gives a reason: sets whose order may
matter, `hash`, `id`, and chance or time at import.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.rewards.python_source import parsed

_UNORDERED = frozenset({"set", "frozenset"})
_IDENTITY = frozenset({"hash", "id"})
_ORDER_FREE = frozenset({"len", "sorted", "any", "all", "bool", "isinstance", "print"})
"""Functions that give the same whatever order their argument has."""
_OF_IMPORT = frozenset({"random", "secrets", "uuid", "time", "datetime"})
_PROCESS = frozenset({"getpid", "urandom"})
_PLAIN = re.compile(r"\b(?:set|frozenset|hash|id)\(")


def reason(source: str) -> str | None:
    """What in the source may differ between processes, such as `hash()`; None where nothing does."""
    tree = parsed(source)
    if tree is None:
        found = _PLAIN.search(source)
        return f"{found[0]})" if found else None
    harmless = {id(part) for node in ast.walk(tree) for inner in _order_free(node) for part in _parts(inner)}
    for node in ast.walk(tree):
        name = _name(node.func) if isinstance(node, ast.Call) else None
        if name in _IDENTITY or name in _PROCESS:
            return f"{name}()"
        filled = name in _UNORDERED and isinstance(node, ast.Call) and bool(node.args)
        if id(node) not in harmless and (filled or isinstance(node, ast.Set | ast.SetComp)):
            return "a set"
    return next(_at_import(tree), None)


def _order_free(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of this node whose order cannot show."""
    if isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call) and _name(node.func) in _ORDER_FREE:
        yield from node.args


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.BinOp):
        yield from _parts(node.left)
        yield from _parts(node.right)


def _name(func: ast.AST) -> str | None:
    if isinstance(func, ast.Name):
        return func.id
    return func.attr if isinstance(func, ast.Attribute) and func.attr in _PROCESS else None


def _at_import(tree: ast.Module) -> Iterator[str]:
    """Chance and clock outside of functions: every process draws its own."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = node.func.value, node.func.attr
            seeded = name in ("Random", "seed", "UUID", "timedelta", "uuid5", "datetime") and node.args
            if isinstance(module, ast.Name) and module.id in _OF_IMPORT and not seeded:
                yield f"{module.id}.{name}() at import"
        waiting += ast.iter_child_nodes(node)
