"""Finds the texts that an expression may evaluate to, where the source of a package shows all of them.

Code that looks up an attribute by a computed name, or fills in a computed format text, is harmless where every such
name and text is written out somewhere: in a list, in a loop, in the calls of the function that gets it. The module
reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from prime_lab_mcp.lab.base.syntax import named_parameters
from prime_lab_mcp.lab.rewards.bindings import bindings_of
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, files_by_module
from prime_lab_mcp.lab.state.source_code import SourceFile

_DEEPEST = 8
_MOST = 5_000
"""Texts above which the texts of an expression count as unknown."""
_MOST_JOINED = 64
"""The same for texts that are put together."""
_OF_ARGUMENTS = frozenset(
    [
        "choice",
        "choices",
        "sample",
        "sorted",
        "list",
        "tuple",
        "set",
        "frozenset",
        "enumerate",
        "zip",
        "reversed",
        "dict",
        "dedent",
        "iter",
        "next",
        "islice",
        "shuffle",
        "cast",
        "chain",
        "product",
    ]
)
"""Functions whose result holds only texts of their arguments."""
_OF_OWNER = frozenset({"items", "keys", "values", "copy", "strip", "rstrip", "lstrip", "lower", "upper", "splitlines"})
_GETS = frozenset({"get", "pop", "setdefault"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class PossibleTexts:
    """Answers which texts an expression of a package may be."""

    def __init__(self, program: RewardProgram, files: Sequence[SourceFile]) -> None:
        self._program = program
        self._calls: dict[str, list[tuple[SourceFile, ast.AST | None, ast.Call]]] = {}
        self._mentions: dict[str, int] = {}
        self._of_module: dict[str, dict[str, list[ast.AST]]] = {}
        self._bound: dict[int, dict[str, list[ast.AST]]] = {}
        self._files = files_by_module(files)
        for file in files:
            if file.tree is None:
                continue
            self._of_module[file.path] = _by_name(pair for s in file.tree.body for pair in _outside_functions(s))
            for owner, node in _with_owner(file.tree, None):
                name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
                self._mentions[name] = self._mentions.get(name, 0) + 1
                if isinstance(node, ast.Call):
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    self._calls.setdefault(called, []).append((file, owner, node))

    def bound(self, name: str, file: SourceFile, owner: ast.AST | None) -> list[ast.AST]:
        """Return the expressions that are assigned to a variable of a function, else of its module."""
        own = self._bindings(owner).get(name, []) if owner is not None else []
        return own or self._of_module.get(file.path, {}).get(name, [])

    def of(self, node: ast.AST, file: SourceFile, owner: ast.AST | None, depth: int = 0) -> frozenset[str] | None:
        """Return every text that an expression of a function may be or hold; None if not all of them are known."""
        if depth > _DEEPEST:
            return None

        def union(parts: Iterable[ast.AST | None]) -> frozenset[str] | None:
            found: frozenset[str] = frozenset()
            for part in parts:
                texts = self.of(part, file, owner, depth + 1) if part is not None else None
                if texts is None:
                    return None
                found |= texts
            return found if len(found) <= _MOST else None

        if isinstance(node, ast.Constant):
            return frozenset({node.value}) if isinstance(node.value, str) else frozenset()
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return union(node.elts)
        if isinstance(node, ast.Dict):
            return union([*node.keys, *node.values])
        if isinstance(node, ast.IfExp):
            return union([node.body, node.orelse])
        if isinstance(node, ast.BoolOp):
            return union(node.values)
        if isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr):
            return self.of(node.value, file, owner, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined([node.left, node.right], file, owner, depth)
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
            return self._joined(parts, file, owner, depth)
        if isinstance(node, ast.Name):
            return self._of_name(node.id, file, owner, depth)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            held = node.func.value if isinstance(node.func, ast.Attribute) else None
            if called in _OF_ARGUMENTS and node.args:
                return union(node.args)
            if called in _OF_OWNER:
                return union([held])
            return union([held, *node.args[1:]]) if called in _GETS else None
        return None

    def _joined(
        self, parts: Sequence[ast.AST], file: SourceFile, owner: ast.AST | None, depth: int
    ) -> frozenset[str] | None:
        joined = frozenset({""})
        for part in parts:
            texts = self.of(part, file, owner, depth + 1)
            if not texts or len(texts) * len(joined) > _MOST_JOINED:
                return None
            joined = frozenset(before + text for before in joined for text in texts)
        return joined

    def _of_name(self, name: str, file: SourceFile, owner: ast.AST | None, depth: int) -> frozenset[str] | None:
        found: frozenset[str] = frozenset()
        values: list[tuple[ast.AST, SourceFile, ast.AST | None]] = []
        values += [(value, file, owner) for value in self.bound(name, file, owner)]
        for function in _functions_with(owner, name):
            given = self._given(function, name)
            if given is None:
                return None
            values += given
        if not values:
            module, _, last = self._program.imported[file.path].get(name, "").rpartition(".")
            if (other := self._files.get(module)) is not None:
                values = [(value, other, None) for value in self._of_module[other.path].get(last, [])]
        for value, where, within in values:
            texts = self.of(value, where, within, depth + 1)
            if texts is None:
                return None
            found |= texts
        return found if values and len(found) <= _MOST else None

    def _given(self, function: _Function, name: str) -> list[tuple[ast.AST, SourceFile, ast.AST | None]] | None:
        """Return what the calls of a function give to a parameter; None where the function is used in other ways."""
        calls = self._calls.get(function.name, [])
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        if not calls or self._mentions.get(function.name, 0) != len(calls):
            return None
        given: list[tuple[ast.AST, SourceFile, ast.AST | None]] = []
        for file, owner, call in calls:
            if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
                return None
            at = names.index(name) if name in names else len(call.args)
            given += [(value, file, owner) for value in call.args[at : at + 1]]
            given += [(k.value, file, owner) for k in call.keywords if k.arg == name]
        return given

    def _bindings(self, owner: ast.AST) -> dict[str, list[ast.AST]]:
        if id(owner) not in self._bound:
            self._bound[id(owner)] = _by_name(pair for node in ast.walk(owner) for pair in _assigned(node))
        return self._bound[id(owner)]


def _by_name(pairs: Iterable[tuple[str, ast.AST]]) -> dict[str, list[ast.AST]]:
    named: dict[str, list[ast.AST]] = {}
    for name, value in pairs:
        named.setdefault(name, []).append(value)
    return named


def _functions_with(owner: ast.AST | None, name: str) -> Iterator[_Function]:
    """Yield a function and its inner functions that have a parameter of this name."""
    for node in ast.walk(owner) if owner is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name in [
            a.arg for a in named_parameters(node.args)
        ]:
            yield node


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, value) of every assignment of a node; a value that is added to (`+=`) is not known."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node
    yield from bindings_of(node)


def _outside_functions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, value) of every assignment of a statement, without those in functions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    yield from _assigned(node)
    for child in ast.iter_child_nodes(node):
        yield from _outside_functions(child)


def _with_owner(node: ast.AST, owner: ast.AST | None) -> Iterator[tuple[ast.AST | None, ast.AST]]:
    """Yield every node below a node, with the outermost function around the node."""
    for child in ast.iter_child_nodes(node):
        yield owner, child
        inner = child if owner is None and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else owner
        yield from _with_owner(child, inner)
