"""Programs made from a reference solution by changing it: wrong ones, and nearly right ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.rewards.python_source import functions, parsed


def wrong_programs(reference: str) -> Iterator[tuple[str, str]]:
    """(name, program) that a test which tests anything refuses. A function that returns nothing gets no such mutant."""
    tree = parsed(reference)
    if tree is None:
        return
    if _returns(tree):
        yield "returns None", _changed(reference, _Returns(lambda _: ast.Constant(None)))
        yield "returns something else", _changed(reference, _Returns(_beside))
        yield "empty functions", _changed(reference, _Emptied())
        if names := functions(tree):
            yield "other function names", _changed(reference, _Renamed(frozenset(names)))
    yield "says nothing", "pass"


def near_programs(reference: str) -> Iterator[tuple[str, str]]:
    """(name, program) that good tests refuse, and some tests rightly cannot tell from the reference."""
    tree = parsed(reference)
    if tree is None or not _returns(tree):
        return
    constants = sum(_is_number(node) for node in ast.walk(tree))
    if constants:
        yield "constant off by one", _changed(reference, _OffByOne(constants))
    yield "result negated", _changed(reference, _Returns(lambda value: ast.UnaryOp(ast.Not(), value)))


def _returns(tree: ast.AST) -> bool:
    """Whether something returns a value that is not None."""
    found = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in found)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _changed(reference: str, change: ast.NodeTransformer) -> str:
    return ast.unparse(ast.fix_missing_locations(change.visit(ast.parse(reference))))


def _beside(value: ast.expr) -> ast.expr:
    """No reference returns a tuple of its result and this text."""
    return ast.Tuple([value, ast.Constant("zzyzx")], ast.Load())


class _Returns(ast.NodeTransformer):
    def __init__(self, made: Callable[[ast.expr], ast.expr]) -> None:
        self._made = made

    def visit_Return(self, node: ast.Return) -> ast.Return:
        value = node.value if node.value is not None else ast.Constant(None)
        return ast.Return(self._made(value))


class _Emptied(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [ast.Pass()]
        return node


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name in self._names:
            node.name = f"other_{node.name}"
        return node


class _OffByOne(ast.NodeTransformer):
    """The last number of the program, one more: numbers of results tend to stand last, those of edge cases first."""

    def __init__(self, last: int) -> None:
        self._left = last

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if not _is_number(node):
            return node
        self._left -= 1
        assert isinstance(node.value, int | float)
        return ast.Constant(node.value + 1) if self._left == 0 else node
