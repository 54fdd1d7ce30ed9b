"""The Python files of a snapshot, parsed: names imported, strings, calls. Never executed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prime_lab_mcp.lab.snapshot import Snapshot

_MAX = 2_000_000


@dataclass(frozen=True, slots=True)
class Import:
    """`module` is absolute; `name` is set for `from module import name`; `guarded`: in a try that may fail."""

    module: str
    name: str | None
    line: int
    guarded: bool


@dataclass(frozen=True, slots=True)
class SourceFile:
    """`tree` is None where the file is no valid Python; `problem` then says why."""

    path: str
    text: str
    tree: ast.Module | None
    problem: str | None = None

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"

    def imports(self) -> Iterator[Import]:
        if self.tree is not None:
            yield from _imports(self.tree, guarded=False)

    def strings(self) -> Iterator[tuple[str, int]]:
        """Every string constant and its line, docstrings included."""
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, node.lineno

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call with the dotted name that is called."""
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.Call) and (name := dotted(node.func)):
                yield name, node


@dataclass(frozen=True, slots=True)
class Code:
    """All Python files of an environment."""

    files: tuple[SourceFile, ...]
    modules: frozenset[str] = field(default_factory=frozenset)
    """Top-level import names that the environment itself provides."""

    @property
    def text(self) -> str:
        return "\n".join(f.text for f in self.files)

    def imports(self) -> Iterator[tuple[SourceFile, Import]]:
        for file in self.files:
            for found in file.imports():
                yield file, found


def read(snapshot: Snapshot) -> Code:
    """Parse every .py file of a snapshot."""
    paths = [p for p in snapshot.files if p.endswith(".py")]
    files = tuple(_read(snapshot.tree, p) for p in paths)
    return Code(files, _modules(snapshot.files))


def _read(tree: Path, path: str) -> SourceFile:
    raw = (tree / path).read_bytes()[:_MAX]
    text = raw.decode("utf-8", "replace")
    try:
        return SourceFile(path, text, ast.parse(raw, filename=path))
    except SyntaxError as error:
        return SourceFile(path, text, None, f"line {error.lineno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return SourceFile(path, text, None, str(error)[:200])


def _modules(files: Mapping[str, str]) -> frozenset[str]:
    found = set()
    for path in files:
        parts = path.removeprefix("src/").split("/")
        if len(parts) == 1 and path.endswith(".py"):
            found.add(parts[0].removesuffix(".py"))
        elif len(parts) > 1 and path.endswith(".py"):
            found.add(parts[0])
    return frozenset(found)


def _imports(node: ast.AST, *, guarded: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, None, child.lineno, guarded)
        elif isinstance(child, ast.ImportFrom):
            if child.level == 0 and child.module:
                for alias in child.names:
                    yield Import(child.module, alias.name, child.lineno, guarded)
        else:
            inside = guarded or (isinstance(child, ast.Try) and bool(child.handlers)) or _type_checking(child)
            yield from _imports(child, guarded=inside)


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and (dotted(node.test) or "").endswith("TYPE_CHECKING")


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a name or attribute chain."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else None
    return None


def aliases(file: SourceFile, package: str) -> dict[str, str]:
    """What local names stand for, of everything imported from `package`: `{"vf": "verifiers.v1"}`."""
    found: dict[str, str] = {}
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == package:
                    found[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else package
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found
