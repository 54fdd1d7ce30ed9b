"""Makes the mutants of a module: copies in which one comparison, boolean, constant or return is changed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change. `where` is the function or the name of a table at the top of the module."""

    where: str
    line: int
    change: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The name in the list of explained survivors. It has no line number, so that other edits do not change it."""
        return f"{self.where}: {self.change}"


def mutants_of(source: str) -> list[Mutant]:
    """All mutants, in the order of the source. Two with equal names differ in a number at the end."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    times: dict[str, int] = {}
    for where, path, node in _places(tree):
        for before, after in _changes(node):
            changed = _replaced(tree, path, after)
            change = f"{ast.unparse(before)} -> {ast.unparse(after)}"
            number = times[f"{where}: {change}"] = times.get(f"{where}: {change}", 0) + 1
            change += f" ({number})" if number > 1 else ""
            found.append(Mutant(where, getattr(node, "lineno", 0), change, changed))
    return found


_Path = tuple[tuple[str, int | None], ...]


def _places(tree: ast.Module) -> Iterator[tuple[str, _Path, ast.AST]]:
    """Every node that code runs, with its function and the path to it from the top."""

    def walk(node: ast.AST, where: str, path: _Path) -> Iterator[tuple[str, _Path, ast.AST]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            for number, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not isinstance(child, ast.AST) or _is_for_types(child):
                    continue
                here = (*path, (field, number))
                name = where
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    name = f"{where}.{child.name}" if where else child.name
                elif not where and isinstance(child, ast.Assign | ast.AnnAssign):
                    target = child.targets[0] if isinstance(child, ast.Assign) else child.target
                    name = target.id if isinstance(target, ast.Name) else ""
                yield name, here, child
                yield from walk(child, name, here)

    yield from walk(tree, "", ())


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The node and what replaces it, for each change of a node."""
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            ops = list(node.ops)
            ops[number] = _COMPARED[type(operator)]()
            yield node, ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield node, ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node, ast.Constant(node.value + 1)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_truth_value(node.value):
        yield node, ast.Return(ast.Constant(None))
    elif isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        negated = copy.copy(node)
        negated.test = ast.UnaryOp(ast.Not(), node.test)
        yield node.test, negated.test


def _is_truth_value(node: ast.AST) -> bool:
    """None, and a truth value: None instead of True is the change of the constant to False, and of False no change."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _replaced(tree: ast.Module, path: _Path, after: ast.AST) -> ast.Module:
    """A copy of the tree in which the node at a path is replaced. Only the nodes above it are copied."""

    def rebuilt(node: ast.AST, rest: _Path) -> ast.AST:
        if not rest:
            # The condition of an `if` that is no comparison is replaced in the `if` itself.
            return _negated(node) if isinstance(node, ast.If | ast.IfExp) else ast.copy_location(after, node)
        (field, number), *deeper = rest
        made = copy.copy(node)
        value = getattr(node, field)
        if number is None:
            setattr(made, field, rebuilt(value, tuple(deeper)))
        else:
            setattr(made, field, [rebuilt(one, tuple(deeper)) if at == number else one for at, one in enumerate(value)])
        return made

    result = rebuilt(tree, path)
    assert isinstance(result, ast.Module)
    return ast.fix_missing_locations(result)


def _is_for_types(node: ast.AST) -> bool:
    """Whether a statement holds imports that only the type checker runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _negated(node: ast.If | ast.IfExp) -> ast.AST:
    made = copy.copy(node)
    made.test = ast.UnaryOp(ast.Not(), node.test)
    return made
