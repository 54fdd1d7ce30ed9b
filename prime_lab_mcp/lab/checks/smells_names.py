"""Which expressions of a function stand for the completion's text, a part of it, or the gold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.checks.code import dotted
from prime_lab_mcp.lab.checks.reading_code import Function

_SAME = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "replace", "get", "str", "format"})
"""Calls whose result is the whole text they are given."""
_PART = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition", "removesuffix", "removeprefix", "join"})
"""Calls whose result is made of the text they are given."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names and attribute chains: `whole` hold the completion, `said` it or a part of it, `gold` the gold."""

    whole: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()
    gold: frozenset[str] = frozenset()

    def joined(self, other: Names) -> Names:
        return Names(self.whole | other.whole, self.said | other.said, self.gold | other.gold)

    def is_whole(self, node: ast.AST) -> bool:
        return _is_text(node, self.whole, parts=False)

    def is_said(self, node: ast.AST) -> bool:
        return _is_text(node, self.said, parts=True)

    def is_gold(self, node: ast.AST) -> bool:
        return _is_text(node, self.gold, parts=False)


def spread(function: Function, roots: Names) -> Names:
    """`roots` with the local names that stand for the same."""
    pairs = list(_pairs(function))
    own = {p for p in function.parameters if p not in ("self", "cls", "trace")}
    names = Names(*(
        frozenset(r for r in group if "." in r or r in own)
        for group in (roots.whole, roots.said, roots.gold)
    ))  # fmt: skip
    for _ in range(3):
        names = names.joined(Names(
            frozenset(name for name, value in pairs if names.is_whole(value)),
            frozenset(name for name, value in pairs if names.is_said(value)),
            frozenset(name for name, value in pairs if names.is_gold(value)),
        ))  # fmt: skip
    return names


def _is_text(node: ast.AST, known: frozenset[str], *, parts: bool) -> bool:
    if (dotted(node) or "") in known:
        return True
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and node.slice.value == "completion" and "completion" in known:
            return True
        return (parts or not isinstance(node.slice, ast.Slice)) and _is_text(node.value, known, parts=parts)
    if isinstance(node, ast.Attribute | ast.Starred):
        return _is_text(node.value, known, parts=parts)
    if isinstance(node, ast.BoolOp):
        return any(_is_text(v, known, parts=parts) for v in node.values)
    if isinstance(node, ast.IfExp):
        return any(_is_text(v, known, parts=parts) for v in (node.body, node.orelse))
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        each = {
            g.target.id
            for g in node.generators
            if isinstance(g.target, ast.Name) and _is_text(g.iter, known, parts=parts)
        }
        return bool(each) and _is_text(node.elt, known | each, parts=parts)
    return isinstance(node, ast.Call) and _is_call_text(node, known, parts)


def _is_call_text(node: ast.Call, known: frozenset[str], parts: bool) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) or ""
    if name == "join":
        return any(_is_text(a, known, parts=parts) for a in node.args)
    if name not in _SAME and not (parts and name in _PART):
        return False
    inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    return inner is not None and _is_text(inner, known, parts=parts)


def _pairs(function: Function) -> Iterator[tuple[str, ast.expr]]:
    for node in function.nodes():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _unpacked(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value
        elif isinstance(node, ast.For | ast.AsyncFor) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.Subscript(node.iter, ast.Slice(), ast.Load())


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for inner, part in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(inner, part)
