"""The functions that decide a reward, and which of their names hold the completion or the gold. Read, never run.

A reward is a method decorated with `@vf.reward` (v1) or a function given to a rubric (v0), and whatever of the same
package those call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.checks.code import Code, SourceFile, dotted
from prime_lab_mcp.lab.checks.reading_code import Function, functions
from prime_lab_mcp.lab.checks.smells_names import Names, spread

SAID = frozenset({
    "completion", "completions", "response", "reply", "trace.last_reply", "trace.assistant_messages", "model_output",
})  # fmt: skip
_FIELDS = ("answer", "gold", "target", "label", "expected", "ground_truth", "correct_answer")
GOLD = frozenset({*_FIELDS, *(f"self.data.{name}" for name in _FIELDS)})
_ENTRY = {"reward": True, "metric": False, "add_reward_func": True, "add_metric": False}
"""Decorators and calls that make a function part of a reward; True where it pays."""
_THREADS = frozenset({"to_thread", "run_sync", "run_in_executor", "submit"})
_MOST = 400


@dataclass(frozen=True, slots=True)
class Reached:
    """One function that a reward runs. `pays`: what it returns may become reward; `threaded`: only in other threads."""

    file: SourceFile
    function: Function
    names: Names
    pays: bool
    threaded: bool


@dataclass(slots=True)
class Program:
    """The package's files with what their names stand for."""

    code: Code
    by_file: dict[str, list[Function]] = field(default_factory=dict)
    imported: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for file in self.code.files:
            self.by_file[file.path] = list(functions(file))
            self.imported[file.path] = dict(_imported(file))

    def full_name(self, file: SourceFile, node: ast.AST) -> str:
        """The dotted name of an expression with imports resolved: `choice` as `random.choice`."""
        name = dotted(node) or ""
        head, _, rest = name.partition(".")
        stands_for = self.imported[file.path].get(head, head)
        return f"{stands_for}.{rest}" if rest else stands_for

    def defined(self, file: SourceFile, node: ast.AST) -> list[tuple[SourceFile, Function]]:
        """The package's functions that a name means: of the same file, a method of self, or an imported one."""
        name = dotted(node) or ""
        head, _, last = name.rpartition(".")
        local = [f for f in self.by_file[file.path] if f.name == last]
        if local and (not head or head in ("self", "cls") or head[:1].isupper()):
            return [(file, f) for f in local]
        module, _, last = self.full_name(file, node).rpartition(".")
        return [(f, found) for f in self.files_of(module) for found in self.by_file[f.path] if found.name == last]

    def files_of(self, module: str) -> list[SourceFile]:
        return [f for f in self.code.files if module and _module_of(f.path) == module]


def reached(code: Code) -> list[Reached]:
    """Every function that decides a reward, entries first."""
    program = Program(code)
    found: dict[int, Reached] = {}
    todo = [
        Reached(file, function, spread(function, Names(SAID, SAID, GOLD)), pays, False)
        for file, function, pays in _entries(program)
    ]
    while todo and len(found) < _MOST:
        new = todo.pop(0)
        old = found.get(id(new.function.node))
        if old is not None:
            joined = old.names.joined(new.names)
            pays, threaded = old.pays or new.pays, old.threaded and new.threaded
            if (joined, pays, threaded) == (old.names, old.pays, old.threaded):
                continue
            new = Reached(new.file, new.function, spread(new.function, joined), pays, threaded)
        found[id(new.function.node)] = new
        todo += _called(program, new)
    return list(found.values())


def _called(program: Program, caller: Reached) -> Iterator[Reached]:
    for node in caller.function.nodes():
        if not isinstance(node, ast.Call):
            continue
        for file, function in program.defined(caller.file, node.func):
            given = _given(function, node.args, {k.arg: k.value for k in node.keywords if k.arg}, caller.names)
            yield Reached(file, function, spread(function, given), caller.pays, caller.threaded)
        if (dotted(node.func) or "").rsplit(".", 1)[-1] in _THREADS:
            for number, argument in enumerate(node.args):
                for file, function in program.defined(caller.file, argument):
                    given = _given(function, node.args[number + 1 :], {}, caller.names)
                    yield Reached(file, function, spread(function, given), caller.pays, True)


def _given(function: Function, args: Sequence[ast.expr], named: Mapping[str, ast.expr], names: Names) -> Names:
    """The parameters that get the completion or the gold in one call."""
    parameters = [p for p in function.parameters if p not in ("self", "cls")]
    pairs = [*zip(parameters, args, strict=False), *((k, v) for k, v in named.items() if k in parameters)]
    return Names(
        frozenset(p for p, value in pairs if names.is_whole(value)),
        frozenset(p for p, value in pairs if names.is_said(value)),
        frozenset(p for p, value in pairs if names.is_gold(value)),
    )


def _entries(program: Program) -> Iterator[tuple[SourceFile, Function, bool]]:
    for file in program.code.files:
        for function in program.by_file[file.path]:
            marks = [_ENTRY[last] for d in function.decorators() if (last := d.rsplit(".", 1)[-1]) in _ENTRY]
            if marks:
                yield file, function, any(marks)
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.Call):
                for value, pays in _registered(node):
                    for where, function in _functions_of(program, file, value):
                        yield where, function, pays


def _registered(node: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) or ""
    if name in _ENTRY and node.args:
        yield node.args[0], _ENTRY[name]
    elif isinstance(node.func, ast.Call) and (dotted(node.func.func) or "").endswith(".reward") and node.args:
        yield node.args[0], True
    elif name.endswith("Rubric"):
        yield from ((k.value, True) for k in node.keywords if k.arg == "funcs")
        yield from ((a, True) for a in node.args[:1])


def _functions_of(program: Program, file: SourceFile, value: ast.expr) -> Iterator[tuple[SourceFile, Function]]:
    """The functions that an expression names: itself, members of a list, a class with `__call__`, what a call makes."""
    if isinstance(value, ast.List | ast.Tuple):
        for member in value.elts:
            yield from _functions_of(program, file, member)
    elif isinstance(value, ast.Call):
        yield from _functions_of(program, file, value.func)
        for argument in value.args[:1]:
            yield from _functions_of(program, file, argument)
    elif isinstance(value, ast.Name | ast.Attribute):
        for where, function in program.defined(file, value):
            yield where, function
            inner = {n for n in ast.walk(function.node) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            yield from ((where, Function(n)) for n in inner if n is not function.node)
        yield from _assigned(program, file, dotted(value) or "")


def _assigned(program: Program, file: SourceFile, name: str) -> Iterator[tuple[SourceFile, Function]]:
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name == "__call__":
                    yield file, Function(inner)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List | ast.Tuple)
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ):
            yield from _functions_of(program, file, node.value)


def _module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(file: SourceFile) -> Iterator[tuple[str, str]]:
    here = _module_of(file.path).split(".")
    package = here if file.path.endswith("__init__.py") else here[:-1]
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            yield from ((a.asname, a.name) for a in node.names if a.asname)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((a.asname or a.name, f"{base}.{a.name}" if base else a.name) for a in node.names)
