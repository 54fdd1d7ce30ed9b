"""Finds the functions that decide a reward, and the variables in them that hold the completion or the gold.

The functions are methods with the decorator `@vf.reward` or `@vf.metric` (v1), functions that are passed to a rubric
(v0), and all functions of the same package that these call. The module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile, SourceFunction, dotted_name, functions_of

_SAME = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "replace", "get", "str", "format"})
"""Functions and methods whose result is the whole input text, apart from case, white space and the like."""
_PART = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition", "removesuffix", "removeprefix", "join"})
"""Functions and methods whose result is part of the input text."""


@dataclass(frozen=True, slots=True)
class TracedNames:
    """Variables and dotted names of a function that hold the completion or the gold."""

    whole: frozenset[str] = frozenset()
    """Names that hold the whole completion."""
    part: frozenset[str] = frozenset()
    """Names that hold the completion or a part of it."""
    gold: frozenset[str] = frozenset()
    """Names that hold the gold."""

    def joined(self, other: TracedNames) -> TracedNames:
        """Return these names together with those of `other`."""
        return TracedNames(self.whole | other.whole, self.part | other.part, self.gold | other.gold)

    def is_whole(self, node: ast.AST) -> bool:
        """Whether an expression is the whole completion."""
        return _is_text(node, self.whole, parts=False)

    def is_part(self, node: ast.AST) -> bool:
        """Whether an expression is the completion or a part of it."""
        return _is_text(node, self.part, parts=True)

    def is_gold(self, node: ast.AST) -> bool:
        """Whether an expression is the gold."""
        return _is_text(node, self.gold, parts=False)


def trace_names(function: SourceFunction, roots: TracedNames) -> TracedNames:
    """Return `roots` together with the local variables of a function to which their values are assigned."""
    pairs = list(_pairs(function))
    own = {p for p in function.parameters if p not in ("self", "cls", "trace")}
    names = TracedNames(
        *(frozenset(r for r in group if "." in r or r in own) for group in (roots.whole, roots.part, roots.gold))
    )
    for _ in range(3):
        names = names.joined(
            TracedNames(
                frozenset(name for name, value in pairs if names.is_whole(value)),
                frozenset(name for name, value in pairs if names.is_part(value)),
                frozenset(name for name, value in pairs if names.is_gold(value)),
            )
        )
    return names


def _is_text(node: ast.AST, known: frozenset[str], *, parts: bool) -> bool:
    """Whether an expression evaluates to the text in one of the `known` names. With `parts`, a part of it suffices."""
    if (dotted_name(node) or "") in known:
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
    """Whether a call returns the text in one of the `known` names. With `parts`, a part of the text suffices."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func) or ""
    if name == "join":
        return any(_is_text(a, known, parts=parts) for a in node.args)
    if name not in _SAME and not (parts and name in _PART):
        return False
    inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    return inner is not None and _is_text(inner, known, parts=parts)


def _pairs(function: SourceFunction) -> Iterator[tuple[str, ast.expr]]:
    """Yield (variable, value) for every assignment in a function.

    The value of a loop variable is written as a slice of the sequence that the loop iterates over.
    """
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


COMPLETION_NAMES = frozenset(
    {
        "completion",
        "completions",
        "response",
        "reply",
        "trace.last_reply",
        "trace.assistant_messages",
        "model_output",
    }
)
_FIELDS = ("answer", "gold", "target", "label", "expected", "ground_truth", "correct_answer")
GOLD_NAMES = frozenset({*_FIELDS, *(f"self.data.{name}" for name in _FIELDS)})
_ENTRY = {"reward": True, "metric": False, "add_reward_func": True, "add_metric": False}
"""Decorators and methods that add a function to a rubric: True for a reward, False for a metric."""
_THREADS = frozenset({"to_thread", "run_sync", "run_in_executor", "submit"})
_MOST = 400


@dataclass(frozen=True, slots=True)
class ReachedFunction:
    """A function that a reward or a metric runs. `pays` means that its result may become part of the reward."""

    file: SourceFile
    function: SourceFunction
    names: TracedNames
    pays: bool


@dataclass(slots=True)
class RewardProgram:
    """The functions and imported names of every file of a package."""

    code: SourceCode
    by_file: dict[str, list[SourceFunction]] = field(default_factory=dict)
    """Maps a file's path to its functions."""
    imported: dict[str, dict[str, str]] = field(default_factory=dict)
    """Maps a file's path to its imported names, each with the full name."""

    def __post_init__(self) -> None:
        for file in self.code.files:
            self.by_file[file.path] = list(functions_of(file))
            self.imported[file.path] = dict(_imported(file))

    def full_name(self, file: SourceFile, node: ast.AST) -> str:
        """Return the dotted name of an expression with imports resolved, such as `random.choice` for `choice`."""
        name = dotted_name(node) or ""
        head, _, rest = name.partition(".")
        stands_for = self.imported[file.path].get(head, head)
        return f"{stands_for}.{rest}" if rest else stands_for

    def defined(self, file: SourceFile, node: ast.AST) -> list[tuple[SourceFile, SourceFunction]]:
        """Return the functions of the package that a name may refer to: in the same file, of `self`, or imported."""
        name = dotted_name(node) or ""
        head, _, last = name.rpartition(".")
        local = [f for f in self.by_file[file.path] if f.name == last]
        if local and (not head or head in ("self", "cls") or head[:1].isupper()):
            return [(file, f) for f in local]
        module, _, last = self.full_name(file, node).rpartition(".")
        functions = ((f, function) for f in self.files_of(module) for function in self.by_file[f.path])
        return [(f, function) for f, function in functions if function.name == last]

    def files_of(self, module: str) -> list[SourceFile]:
        """Return the files of a module of the package."""
        return [f for f in self.code.files if module and module_of(f.path) == module]


def reached_functions(code: SourceCode) -> list[ReachedFunction]:
    """Return every function that a reward or metric runs, beginning with the rewards and metrics themselves."""
    program = RewardProgram(code)
    reached: dict[int, ReachedFunction] = {}
    todo = [
        ReachedFunction(
            file,
            function,
            trace_names(function, TracedNames(COMPLETION_NAMES, COMPLETION_NAMES, GOLD_NAMES)),
            pays,
        )
        for file, function, pays in _entries(program)
    ]
    while todo and len(reached) < _MOST:
        new = todo.pop(0)
        old = reached.get(id(new.function.node))
        if old is not None:
            joined = old.names.joined(new.names)
            pays = old.pays or new.pays
            if (joined, pays) == (old.names, old.pays):
                continue
            new = ReachedFunction(new.file, new.function, trace_names(new.function, joined), pays)
        reached[id(new.function.node)] = new
        todo += _called(program, new)
    return list(reached.values())


def _called(program: RewardProgram, caller: ReachedFunction) -> Iterator[ReachedFunction]:
    """Yield the functions of the package that a function calls, also in threads."""
    for node in caller.function.nodes():
        if not isinstance(node, ast.Call):
            continue
        for file, function in program.defined(caller.file, node.func):
            given = _given(function, node.args, {k.arg: k.value for k in node.keywords if k.arg}, caller.names)
            yield ReachedFunction(file, function, trace_names(function, given), caller.pays)
        if (dotted_name(node.func) or "").rsplit(".", 1)[-1] in _THREADS:
            for number, argument in enumerate(node.args):
                for file, function in program.defined(caller.file, argument):
                    given = _given(function, node.args[number + 1 :], {}, caller.names)
                    yield ReachedFunction(file, function, trace_names(function, given), caller.pays)


def _given(
    function: SourceFunction, args: Sequence[ast.expr], named: Mapping[str, ast.expr], names: TracedNames
) -> TracedNames:
    """Return the parameters of a function that hold the completion or the gold in one call of it."""
    parameters = [p for p in function.parameters if p not in ("self", "cls")]
    pairs = [*zip(parameters, args, strict=False), *((k, v) for k, v in named.items() if k in parameters)]
    return TracedNames(
        frozenset(p for p, value in pairs if names.is_whole(value)),
        frozenset(p for p, value in pairs if names.is_part(value)),
        frozenset(p for p, value in pairs if names.is_gold(value)),
    )


def _entries(program: RewardProgram) -> Iterator[tuple[SourceFile, SourceFunction, bool]]:
    """Yield (file, function, pays) for the rewards and metrics; `pays` is False for a metric."""
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
    """Yield (expression, pays) for the functions that a call adds to a rubric."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func) or ""
    if name in _ENTRY and node.args:
        yield node.args[0], _ENTRY[name]
    elif isinstance(node.func, ast.Call) and (dotted_name(node.func.func) or "").endswith(".reward") and node.args:
        yield node.args[0], True
    elif name.endswith("Rubric"):
        yield from ((k.value, True) for k in node.keywords if k.arg == "funcs")
        yield from ((a, True) for a in node.args[:1])


def _functions_of(
    program: RewardProgram, file: SourceFile, value: ast.expr
) -> Iterator[tuple[SourceFile, SourceFunction]]:
    """Yield the functions that an expression refers to.

    The expression may be a name, a list, a class with `__call__`, or a call that returns an inner function.
    """
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
            yield from ((where, SourceFunction(n)) for n in inner if n is not function.node)
        yield from _assigned(program, file, dotted_name(value) or "")


def _assigned(program: RewardProgram, file: SourceFile, name: str) -> Iterator[tuple[SourceFile, SourceFunction]]:
    """Yield the `__call__` of a class with this name, and the functions of a list that is assigned to this name."""
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name == "__call__":
                    yield file, SourceFunction(inner)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List | ast.Tuple)
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ):
            yield from _functions_of(program, file, node.value)


def files_by_module(files: Iterable[SourceFile]) -> dict[str, SourceFile]:
    """Map module names to files that could be parsed, without a name that two files have: one below `src`, one beside
    it."""
    parsed = [file for file in files if file.tree is not None]
    names = Counter(module_of(file.path) for file in parsed)
    return {module: file for file in parsed if names[module := module_of(file.path)] == 1}


def module_of(path: str) -> str:
    """Return the dotted module name of a file's path in a package."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield (local name, full name) for the imports of a file. `import module` without `as` needs no entry."""
    here = module_of(file.path).split(".")
    package = here if file.path.endswith("__init__.py") else here[:-1]
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            yield from ((a.asname, a.name) for a in node.names if a.asname)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((a.asname or a.name, f"{base}.{a.name}" if base else a.name) for a in node.names)
