"""Parses the Python files of a snapshot without running them: imports, functions, and the verifiers API generation.

`detect_generation` decides whether an environment is written for v0 or v1. If the code is ambiguous, the package's
requirement on verifiers decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prime_lab_mcp.lab.base.syntax import named_parameters, parse_python
from prime_lab_mcp.lab.base.versions import V0_RELEASES, V1_RELEASES
from prime_lab_mcp.lab.state.snapshot import Snapshot

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MAX_FILE_BYTES = 2_000_000
"""Bytes of a file that is parsed. Code behind the limit would be read by nobody, so a longer file is not parsed at all,
and has a problem."""


@dataclass(frozen=True, slots=True)
class ImportedName:
    """One import. `module` is absolute; `name` is set for `from module import name`.

    `guarded` imports may fail, because they are in a `try` with handlers or under TYPE_CHECKING.
    """

    module: str
    name: str | None
    line: int
    guarded: bool


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One Python file. `tree` is None if the file is not valid Python or too long, and `problem` then says why."""

    path: str
    text: str
    tree: ast.Module | None
    problem: str | None = None

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"

    def imports(self) -> Iterator[ImportedName]:
        if self.tree is not None:
            yield from _imports(self.tree, guarded=False)

    def strings(self) -> Iterator[tuple[str, int]]:
        """Every string constant, including docstrings, with its line."""
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, node.lineno

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call with the dotted name of the called function."""
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.Call) and (name := dotted_name(node.func)):
                yield name, node


@dataclass(frozen=True, slots=True)
class SourceCode:
    """All Python files of an environment."""

    files: tuple[SourceFile, ...]
    modules: frozenset[str] = field(default_factory=frozenset)
    """Top-level modules that the environment itself provides."""
    top_names: frozenset[str] = field(default_factory=frozenset)
    """Names of the files and folders at the top of the environment; empty if they are not known."""

    @property
    def text(self) -> str:
        return "\n".join(f.text for f in self.files)

    def imports(self) -> Iterator[tuple[SourceFile, ImportedName]]:
        for file in self.files:
            for imported in file.imports():
                yield file, imported


def read_source(snapshot: Snapshot) -> SourceCode:
    """Parse every .py file of a snapshot."""
    paths = [p for p in snapshot.files if p.endswith(".py")]
    files = tuple(_read(snapshot.tree, p) for p in paths)
    tops = frozenset(path.removeprefix("src/").partition("/")[0] for path in snapshot.files)
    return SourceCode(files, _modules(snapshot.files), tops)


def _read(tree: Path, path: str) -> SourceFile:
    with (tree / path).open("rb") as source:
        raw = source.read(_MAX_FILE_BYTES + 1)
    text = raw.decode("utf-8", "replace")
    if len(raw) > _MAX_FILE_BYTES:
        problem = (
            f"it has more than {_MAX_FILE_BYTES:,} bytes, and no check reads what it does; keep data in data files"
        )
        return SourceFile(path, text, None, problem)
    try:
        return SourceFile(path, text, parse_python(raw, path))
    except SyntaxError as error:
        return SourceFile(path, text, None, f"line {error.lineno}: {error.msg}" if error.lineno else error.msg)
    except (ValueError, RecursionError) as error:
        return SourceFile(path, text, None, str(error)[:200])


def _modules(files: Mapping[str, str]) -> frozenset[str]:
    modules = set()
    for path in files:
        parts = path.removeprefix("src/").split("/")
        if len(parts) == 1 and path.endswith(".py"):
            modules.add(parts[0].removesuffix(".py"))
        elif len(parts) > 1 and path.endswith(".py"):
            modules.add(parts[0])
    return frozenset(modules)


def _imports(node: ast.AST, *, guarded: bool) -> Iterator[ImportedName]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield ImportedName(alias.name, None, child.lineno, guarded)
        elif isinstance(child, ast.ImportFrom):
            if child.level == 0 and child.module:
                for alias in child.names:
                    yield ImportedName(child.module, alias.name, child.lineno, guarded)
        else:
            inside = guarded or (isinstance(child, ast.Try) and bool(child.handlers)) or _type_checking(child)
            yield from _imports(child, guarded=inside)


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and (dotted_name(node.test) or "").endswith("TYPE_CHECKING")


def dotted_name(node: ast.AST) -> str | None:
    """Return `a.b.c` for a name or attribute chain; None for other expressions."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(attributes))) if isinstance(node, ast.Name) else None


def import_aliases(file: SourceFile, package: str) -> dict[str, str]:
    """Map local names to what they import from `package`, for instance `{"vf": "verifiers.v1"}`."""
    aliases: dict[str, str] = {}
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == package:
                    aliases[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else package
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return aliases


_TEXT_PRESERVING = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "replace", "get", "str", "removesuffix"}
)
"""Functions and methods whose result has essentially the same text as their input."""


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """One function or method, at any depth."""

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
        return tuple(a.arg for a in named_parameters(self.node.args))

    def nodes(self) -> Iterator[ast.AST]:
        """Every node of the body, without the bodies of nested functions and classes."""
        for statement in self.node.body:
            yield from _inside(statement)

    def mentions(self, name: str) -> bool:
        return any(isinstance(n, ast.Name) and n.id == name for n in self.nodes())

    def decorators(self) -> Iterator[str]:
        for node in self.node.decorator_list:
            yield dotted_name(node.func if isinstance(node, ast.Call) else node) or ""

    def derived(self, roots: frozenset[str]) -> frozenset[str]:
        """Names of variables that hold one of `roots` (names or attribute chains), or text made only from one."""
        pairs = [pair for node in self.nodes() if isinstance(node, ast.Assign) for pair in _pairs(node)]
        assigned = {name for name, _ in pairs} - set(self.parameters)
        derived = frozenset(r for r in roots if "." in r or r not in assigned)
        for _ in range(3):
            derived |= {name for name, value in pairs if is_text_of(value, derived)}
        return derived

    def comes_unchecked(self, name: str, call: str) -> bool:
        """True if a local name holds the result of `call` and the function never tests whether the result is empty."""
        assigned = [
            n
            for n in self.nodes()
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
        ]
        if not assigned or not all(
            isinstance(n.value, ast.Call) and (dotted_name(n.value.func) or "").rsplit(".", 1)[-1] == call
            for n in assigned
        ):
            return False
        return not any(_tests_name(node, name) for node in self.nodes())


def functions_of(file: SourceFile) -> Iterator[SourceFunction]:
    """Every function of a file, including methods and nested functions."""
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield SourceFunction(node)


def imported_files(code: SourceCode, module: str) -> list[SourceFile]:
    """The module's own file and the files that it imports, directly or indirectly.

    A file that is only executed by its path is not among them. Of two files with the same module name, one below `src`
    and one beside it, both are: which one a wheel holds is for its build to say.
    """
    by_module: dict[str, list[SourceFile]] = {}
    for file in code.files:
        by_module.setdefault(_module_of(file.path), []).append(file)
    pending, files = [module], []
    while pending:
        for file in by_module.get(pending.pop(), ()):
            if file in files:
                continue
            files.append(file)
            for name in _imported(file, by_module):
                parts = name.split(".")
                pending += [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return files


def _module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(file: SourceFile, known: Mapping[str, Sequence[SourceFile]]) -> Iterator[str]:
    for module, name, _ in imported_modules(file):
        yield module
        if name == "*":  # `__all__` may name files of the package.
            yield from (other for other in known if other.startswith(f"{module}."))
        if name is not None and f"{module}.{name}" in known:
            yield f"{module}.{name}"
    for _, call in file.calls():
        text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if isinstance(text, str) and text in known:
            yield text


_IMPORTERS = frozenset({"import_module", "__import__", "find_spec", "run_module", "resolve_name"})
"""Names of functions that import or search the module that their first argument names, without their module."""


def imported_modules(file: SourceFile) -> Iterator[tuple[str, str | None, int]]:
    """Every import with an absolute module name, the name of `from module import name`, and the line.

    Relative imports count, and calls such as `import_module("pkg.part")` whose argument is a text.
    """
    here = _module_of(file.path).split(".")
    package = here if file.path.endswith("__init__.py") else here[:-1]

    def absolute(level: int, module: str) -> str:
        base = package[: len(package) - level + 1] if level else []
        return ".".join(part for part in (*base, *module.split(".")) if part)

    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            yield from ((a.name, None, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((absolute(node.level, node.module or ""), a.name, node.lineno) for a in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(text, str) and (called in _IMPORTERS or (called and _names_module(text))):
                module = text.partition(":")[0]
                dots = len(module) - len(module.lstrip("."))
                yield absolute(dots, module.lstrip(".")), None, node.lineno


def _names_module(text: str) -> bool:
    """Whether a text is a dotted name, which could be a module for an importing function not in `_IMPORTERS`."""
    return "." in text and all(part.isidentifier() for part in text.split("."))


def is_text_of(node: ast.AST, known: frozenset[str]) -> bool:
    """True if an expression is one of the known names, a part of it, or the same text in another case."""
    if (dotted_name(node) or "") in known:
        return True
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        return is_text_of(node.value, known)
    if isinstance(node, ast.BoolOp):
        return any(is_text_of(v, known) for v in node.values)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
        if name not in _TEXT_PRESERVING:
            return False
        inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
        return inner is not None and is_text_of(inner, known)
    return False


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """Yield each assigned name with its value. `a, b = x, y` gives two pairs."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple):
            expressions = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(target.elts)
            if len(expressions) == len(target.elts):
                yield from ((t.id, v) for t, v in zip(target.elts, expressions, strict=True) if isinstance(t, ast.Name))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _tests_name(node: ast.AST, name: str) -> bool:
    """True for a test of the name itself: `if x`, `not x`, `x is None`, `x or y`, `isinstance(x, ...)`, `x == y`."""

    def bare(operand: ast.AST | None) -> bool:
        return isinstance(operand, ast.Name) and operand.id == name

    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return bare(node.test)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and bare(node.operand)
    if isinstance(node, ast.BoolOp):
        return any(map(bare, node.values))
    if isinstance(node, ast.Compare):
        return bare(node.left) and isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
    return (
        isinstance(node, ast.Call) and dotted_name(node.func) == "isinstance" and bool(node.args) and bare(node.args[0])
    )


Api = Literal["v0", "v1"]


@dataclass(frozen=True, slots=True)
class DetectedGeneration:
    """The detected generation; `api` is None if unknown. `reasons` are statements that a person can verify."""

    api: Api | None
    reasons: tuple[str, ...]


def detect_generation(snapshot: Snapshot, code: SourceCode | None = None) -> DetectedGeneration:
    """Detect the API generation of a snapshot, with the reasons."""
    code = code or read_source(snapshot)
    v1, v0 = _v1_code(code), _v0_code(code)
    if v1 and not v0:
        return DetectedGeneration("v1", (v1,))
    if v0 and not v1:
        return DetectedGeneration("v0", (v0,))
    if v1 and v0:
        return DetectedGeneration("v1", (v1, f"{v0}, which v1 does not use"))
    requirement = snapshot.manifest.verifiers
    if requirement is not None and not requirement.url:
        if not requirement_admits(requirement, V0_RELEASES):
            return DetectedGeneration("v1", (f"pyproject.toml requires {requirement}",))
        if not requirement_admits(requirement, V1_RELEASES):
            return DetectedGeneration("v0", (f"pyproject.toml requires {requirement}",))
    return DetectedGeneration(
        None, ("no Taskset subclass, no load_environment, and the requirement on verifiers fits both",)
    )


def requirement_admits(requirement: Requirement, versions: tuple[str, ...]) -> bool:
    """True if a requirement allows any of these versions, or pins another version of the same minor releases.

    A pinned post-release or pre-release, such as `==0.1.5.post0`, is such a version.
    """
    lines = {tuple(version.split(".")[:2]) for version in versions}
    stated = (s.version.removesuffix(".*") for s in requirement.specifier if s.operator in ("==", "==="))
    named = (version for version in stated if tuple(version.split(".")[:2]) in lines)
    return any(requirement.specifier.contains(version, prereleases=True) for version in (*versions, *named))


def _v1_code(code: SourceCode) -> str | None:
    for file in code.files:
        known = import_aliases(file, "verifiers")
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.ClassDef) and any(_is_v1(base, known) for base in node.bases):
                return f"{file.at(node.lineno)} subclasses a v1 Taskset or Task"
    return None


def _is_v1(base: ast.expr, known: dict[str, str]) -> bool:
    name = dotted_name(base.value if isinstance(base, ast.Subscript) else base)
    if name is None:
        return False
    head, _, rest = name.partition(".")
    full = f"{known.get(head, head)}{'.' + rest if rest else ''}"
    return full.startswith("verifiers.v1") and full.rsplit(".", 1)[-1] in ("Taskset", "Task", "TaskData")


def _v0_code(code: SourceCode) -> str | None:
    for file in code.files:
        for node in file.tree.body if file.tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "load_environment":
                return f"{file.at(node.lineno)} defines load_environment"
    return None
