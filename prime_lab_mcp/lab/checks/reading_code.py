"""Functions of a source file as the checks need them: parameters, own statements, where a local name comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.checks.code import Code, SourceFile, dotted

_SAME = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "replace", "get", "str", "removesuffix"})
"""Calls whose result is still the text they are given."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function, at any depth."""

    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def is_async(self) -> bool:
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def returns(self) -> ast.expr:
        return self.node.returns or ast.Constant(None)

    @property
    def parameters(self) -> tuple[str, ...]:
        args = self.node.args
        return tuple(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))

    def nodes(self) -> Iterator[ast.AST]:
        """Everything in the body but the bodies of functions inside it."""
        for statement in self.node.body:
            yield from _inside(statement)

    def mentions(self, name: str) -> bool:
        return any(isinstance(n, ast.Name) and n.id == name for n in self.nodes())

    def decorators(self) -> Iterator[str]:
        for node in self.node.decorator_list:
            yield dotted(node.func if isinstance(node, ast.Call) else node) or ""

    def derived(self, roots: frozenset[str]) -> frozenset[str]:
        """Names that stand for one of `roots` (names or attribute chains), or for a text made of it alone."""
        pairs = [pair for node in self.nodes() if isinstance(node, ast.Assign) for pair in _pairs(node)]
        made = {name for name, _ in pairs} - set(self.parameters)
        known = frozenset(r for r in roots if "." in r or r not in made)
        for _ in range(3):
            known |= {name for name, value in pairs if is_text_of(value, known)}
        return known

    def comes_unchecked(self, name: str, call: str) -> bool:
        """Whether a local name holds what `call` returned and the function never asks whether that is anything."""
        assigned = [
            n for n in self.nodes()
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
        ]  # fmt: skip
        if not assigned or not all(
            isinstance(n.value, ast.Call) and (dotted(n.value.func) or "").rsplit(".", 1)[-1] == call for n in assigned
        ):
            return False
        return not any(_asks(node, name) for node in self.nodes())


def functions(file: SourceFile) -> Iterator[Function]:
    """Every function of a file, nested ones and methods too."""
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(node)


def imported_files(code: Code, module: str) -> list[SourceFile]:
    """The files that importing a module imports, itself first. A file that is only run by path is not among them."""
    by_module = {_module_of(f.path): f for f in code.files}
    todo, seen = [module], []
    while todo:
        file = by_module.get(todo.pop())
        if file is None or file in seen:
            continue
        seen.append(file)
        for name in _imported(file, by_module):
            parts = name.split(".")
            todo += [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return seen


def _module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(file: SourceFile, known: Mapping[str, SourceFile]) -> Iterator[str]:
    here = _module_of(file.path).split(".")
    package = here if file.path.endswith("__init__.py") else here[:-1]
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
                if node.level
                else [node.module or ""]
            )
            name = ".".join(p for p in base if p)
            yield name
            yield from (f"{name}.{a.name}" for a in node.names if f"{name}.{a.name}" in known)


def is_text_of(node: ast.AST, known: frozenset[str]) -> bool:
    """Whether an expression is one of the known names, a part of it, or the same text in another case."""
    if (dotted(node) or "") in known:
        return True
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        return is_text_of(node.value, known)
    if isinstance(node, ast.BoolOp):
        return any(is_text_of(v, known) for v in node.values)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        if name not in _SAME:
            return False
        inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
        return inner is not None and is_text_of(inner, known)
    return False


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """Each name that is assigned to, with its value: `a, b = x, y` in pairs."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(target.elts)
            if len(values) == len(target.elts):
                yield from ((t.id, v) for t, v in zip(target.elts, values, strict=True) if isinstance(t, ast.Name))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _asks(node: ast.AST, name: str) -> bool:
    """A test of the name itself: `if x`, `not x`, `x is None`, `x or y`, `isinstance(x, ...)`, `x == y`."""

    def bare(found: ast.AST | None) -> bool:
        return isinstance(found, ast.Name) and found.id == name

    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return bare(node.test)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and bare(node.operand)
    if isinstance(node, ast.BoolOp):
        return any(map(bare, node.values))
    if isinstance(node, ast.Compare):
        return bare(node.left) and isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
    return isinstance(node, ast.Call) and dotted(node.func) == "isinstance" and bool(node.args) and bare(node.args[0])
