"""Cuts functions, and the code that they need, out of the files of a v0 package by their syntax. The text stays
unchanged.

Names of verifiers are taken from the module `v0` of the new package, which has the parts of the old API that a reward
needs. Code that needs any other part of verifiers cannot be carried over.
"""

from __future__ import annotations

import ast
import posixpath
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from prime_lab_mcp.lab.authoring.port.description import CodePlace
from prime_lab_mcp.lab.base.syntax import named_parameters, parse_python
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class NotPortable(Exception):
    """A part of the old package cannot be carried over. `place` is the line that causes this."""

    def __init__(self, why: str, place: CodePlace) -> None:
        super().__init__(why)
        self.why, self.place = why, place


@dataclass
class CutModule:
    """The statements of one old file that are carried over, by their position, and the names that they bind."""

    file: SourceFile
    statements: dict[int, ast.stmt] = field(default_factory=dict)
    imported: dict[int, set[str]] = field(default_factory=dict)
    """The needed names of each import statement, by the position of the statement."""


class OldPackage:
    """The files of a v0 package, with the code that was cut out so far. `main` is the file of `load_environment`."""

    def __init__(self, source: SourceCode, main: str, offered: frozenset[str]) -> None:
        self.files = {f.path: f for f in source.files}
        self.main, self.offered, self.modules = main, offered, source.modules
        self.cut: dict[str, CutModule] = {}

    def definition(self, place: CodePlace) -> Definition | ast.Lambda:
        """The function at a place. Raises NotPortable if there is none, or several."""
        definitions = [
            node
            for node in ast.walk(self._tree(place))
            if isinstance(node, _SCOPES) and place.line in (node.lineno, _first_line(node))
        ]
        outer = [n for n in definitions if not isinstance(n, ast.Lambda)] or definitions
        if len(outer) != 1:
            raise NotPortable("its code was not found at this line", place)
        return outer[0]

    def class_around(self, place: CodePlace, name: str) -> ast.ClassDef:
        """The class of this name that contains a place. Raises NotPortable if there is none."""
        for node in ast.walk(self._tree(place)):
            if not isinstance(node, ast.ClassDef) or node.name != name:
                continue
            if _first_line(node) <= place.line <= (node.end_lineno or 0):
                return node
        raise NotPortable("its class was not found in the file", place)

    def is_top_level(self, place: CodePlace, node: ast.stmt | ast.Lambda) -> bool:
        return node in self._tree(place).body

    def text(self, place: CodePlace, node: ast.AST) -> str:
        """The lines of a node, dedented, with its decorators and the comments above it."""
        lines = self.files[place.path].text.splitlines()
        first = _first_line(node)
        while first > 1 and lines[first - 2].strip().startswith("#"):
            first -= 1
        return textwrap.dedent("\n".join(lines[first - 1 : getattr(node, "end_lineno", first)]))

    def require_names(self, path: str, node: ast.AST, provided: Iterable[str] = ()) -> None:
        """Cut out the code that a node needs, from its file and from others. `provided` are names that are defined
        elsewhere.

        Raises NotPortable, and then cuts nothing out.
        """
        with self._all_or_nothing():
            self._require(path, node, frozenset(provided))

    def take(self, path: str, name: str) -> None:
        """Cut a top-level name out of a file, with the code that it needs. Raises NotPortable, and then cuts nothing
        out."""
        with self._all_or_nothing():
            self._take(path, name)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo all cuts of the block if it raises NotPortable."""
        before = {p: CutModule(m.file, dict(m.statements), dict(m.imported)) for p, m in self.cut.items()}
        try:
            yield
        except NotPortable:
            self.cut = before
            raise

    def _tree(self, place: CodePlace) -> ast.Module:
        file = self.files.get(place.path)
        if file is None or file.tree is None:
            raise NotPortable("its code is in no file of the package", place)
        return file.tree

    def _require(self, path: str, node: ast.AST, provided: frozenset[str]) -> None:
        self._check_library(path, node)
        bound = _bindings(self._tree(CodePlace(path, 1)))
        for name in sorted(_loaded(node) - provided):
            if name in bound:
                self._take(path, name)
            elif name == "__file__":
                raise NotPortable("it reads files beside the old module", CodePlace(path, node_line(node)))

    def _take(self, path: str, name: str) -> None:
        tree = self._tree(CodePlace(path, 1))
        module = self.cut.setdefault(path, CutModule(self.files[path]))
        statements = _bindings(tree).get(name)
        if statements is None:
            raise NotPortable(f"{name} is not in this file", CodePlace(path, 1))
        for position in statements:
            statement = tree.body[position]
            if isinstance(statement, ast.Import | ast.ImportFrom):
                if name not in module.imported.setdefault(position, set()):
                    module.imported[position].add(name)
                    self._check_import(path, statement, name)
            elif position not in module.statements:
                module.statements[position] = statement
                self._require(path, statement, frozenset())

    def _check_import(self, path: str, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(a for a in statement.names if (a.asname or a.name.split(".")[0]) == name)
        place = CodePlace(path, statement.lineno)
        if isinstance(statement, ast.Import):
            if alias.name.split(".")[0] == "verifiers" and (alias.name != "verifiers"):
                raise NotPortable(f"it imports {alias.name}", place)
            own = self._own_path(path, alias.name, 0)
            if own is not None and alias.asname is None:
                raise NotPortable("it imports the old package by its full name", place)
            if own is not None:
                self._take_attributes(path, own, name)
            return
        if not statement.level and (statement.module or "").split(".")[0] == "verifiers":
            if alias.name not in self.offered:
                raise NotPortable(f"it needs {alias.name} of verifiers v0", place)
            return
        part = self.submodule(path, statement, alias.name)
        own = self.own_path(path, statement)
        if part is not None:
            self._take_attributes(path, part, name)
        elif own is not None and alias.name == "*":
            raise NotPortable("it imports all names of a module of the old package", place)
        elif own is not None:
            self._take(own, alias.name)

    def _take_attributes(self, path: str, part: str, name: str) -> None:
        """Cut the names that a file reads as `name.attribute` out of the module `part`."""
        self.cut.setdefault(part, CutModule(self.files[part]))
        bound = _bindings(self._tree(CodePlace(part, 1)))
        for node in ast.walk(self._tree(CodePlace(path, 1))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
                if node.attr not in bound:
                    raise NotPortable(f"{ast.unparse(node)} is not in the module", CodePlace(path, node.lineno))
                self._take(part, node.attr)

    def submodule(self, path: str, statement: ast.ImportFrom, name: str) -> str | None:
        """The file of the module `name` that a statement imports as a whole; None if `name` is no module."""
        return self._own_path(path, f"{statement.module}.{name}" if statement.module else name, statement.level)

    def named_path(self, module: str) -> str | None:
        """The file of a module of the package, by its full name."""
        return self._own_path("", module, 0)

    def own_path(self, path: str, statement: ast.ImportFrom) -> str | None:
        """The file of the package from which a statement imports."""
        return self._own_path(path, statement.module or "", statement.level)

    def _own_path(self, path: str, module: str, level: int) -> str | None:
        if level:
            folder = posixpath.dirname(path)
            for _ in range(level - 1):
                folder = posixpath.dirname(folder)
            starts = [folder]
        elif module.split(".")[0] in self.modules:
            starts = ["", "src"]
        else:
            return None
        inner = module.replace(".", "/")
        for start in starts:
            base = posixpath.join(start, inner) if inner else start
            for candidate in (f"{base}.py", posixpath.join(base, "__init__.py")):
                if candidate in self.files:
                    return candidate
        return None

    def _check_library(self, path: str, node: ast.AST) -> None:
        """Raise NotPortable if a node uses a part of verifiers that the new package does not offer."""
        aliases = library_aliases(self._tree(CodePlace(path, 1)))
        for inner in ast.walk(node):
            used = isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id in aliases
            if used and inner.attr not in self.offered:  # type: ignore[attr-defined]
                place = CodePlace(path, inner.lineno)  # type: ignore[attr-defined]
                raise NotPortable(f"it uses {ast.unparse(inner)} of verifiers v0", place)
            if isinstance(inner, ast.Import | ast.ImportFrom):
                roots = {a.name.split(".")[0] for a in inner.names} if isinstance(inner, ast.Import) else set()
                module = (inner.module or "").split(".")[0] if isinstance(inner, ast.ImportFrom) else ""
                level = inner.level if isinstance(inner, ast.ImportFrom) else 0
                if level or module == "verifiers" or "verifiers" in roots or module in self.modules:
                    raise NotPortable("it imports inside of a function", CodePlace(path, inner.lineno))


def written_module(package: OldPackage, path: str, module: str, names: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the import lines, and the text of the other statements, that were cut out of a file for the package
    `module`.

    `names` maps each old file to its new module.
    """
    cut = package.cut.get(path)
    if cut is None or cut.file.tree is None:
        return [], ""
    imports: list[str] = []
    for position in sorted(cut.imported):
        statement = cut.file.tree.body[position]
        assert isinstance(statement, ast.Import | ast.ImportFrom)
        imports += _import_lines(package, path, statement, cut.imported[position], module, names)
    body = [package.text(CodePlace(path, 1), cut.statements[p]) for p in sorted(cut.statements)]
    return imports, "\n\n\n".join(body)


def _import_lines(
    package: OldPackage,
    path: str,
    statement: ast.Import | ast.ImportFrom,
    required: set[str],
    module: str,
    names: Mapping[str, str],
) -> Iterator[str]:
    for alias in statement.names:
        bound = alias.asname or alias.name.split(".")[0]
        if bound not in required:
            continue
        renamed = f" as {alias.asname}" if alias.asname and alias.asname != alias.name else ""
        if isinstance(statement, ast.Import):
            whole = package.named_path(alias.name)
            if alias.name == "verifiers":
                yield f"from {module} import v0" + (f" as {bound}" if bound != "v0" else "")
            elif whole is not None:
                yield _whole_import(module, names[whole], bound)
            else:
                yield f"import {alias.name}{renamed}"
            continue
        part = package.submodule(path, statement, alias.name)
        if part is not None:
            yield _whole_import(module, names[part], bound)
            continue
        own = package.own_path(path, statement)
        source = statement.module or ""
        if not statement.level and source.split(".")[0] == "verifiers":
            source = f"{module}.v0"
        elif own is not None:
            if names[own] == names.get(path):
                continue
            source = f"{module}.{names[own]}"
        yield f"from {source} import {alias.name}{renamed}"


def _whole_import(module: str, name: str, bound: str) -> str:
    return f"from {module} import {name}" + (f" as {bound}" if bound != name else "")


def offered_names(text: str) -> frozenset[str]:
    """The public names of the module `v0` of the new package."""
    return frozenset(n for n in _bindings(parse_python(text)) if not n.startswith("_"))


def library_aliases(tree: ast.Module) -> frozenset[str]:
    """The local names of the package verifiers in a file."""
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "verifiers"
    )


def parameters_of(node: Definition | ast.Lambda) -> frozenset[str] | None:
    """The names of a function's parameters; None if it accepts any keyword."""
    if node.args.kwarg is not None:
        return None
    return frozenset(a.arg for a in named_parameters(node.args))


def third_party(trees: Iterable[ast.Module], own: Sequence[str]) -> frozenset[str]:
    """The top-level packages that files import, except the standard library and `own`."""
    roots = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                roots |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots.add((node.module or "").split(".")[0])
    return frozenset(roots - set(sys.stdlib_module_names) - set(own))


def node_line(node: ast.AST) -> int:
    """The line of a node; 1 for a node without one."""
    return int(getattr(node, "lineno", 1))


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node_line(node), *(node_line(d) for d in decorators)])


def _loaded(node: ast.AST) -> set[str]:
    """The names that a node reads, except its local names."""
    read: set[str] = set()
    own: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            (read if isinstance(inner.ctx, ast.Load) else own).add(inner.id)
        elif isinstance(inner, ast.arg):
            own.add(inner.arg)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        defaults = {n.id for n in ast.walk(node.args) if isinstance(n, ast.Name)}
        read = (read - own) | defaults
    return read


def _bindings(tree: ast.Module) -> dict[str, list[int]]:
    """Map each top-level name to the positions of the statements that bind it."""
    positions: dict[str, list[int]] = {}
    for position, statement in enumerate(tree.body):
        for name in _bound(statement):
            positions.setdefault(name, [])
            if position not in positions[name]:
                positions[name].append(position)
    return positions


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    if isinstance(statement, ast.Import | ast.ImportFrom):
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            yield from (a.asname or a.name.split(".")[0] for a in statement.names)
        return
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inner.name
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            yield from (a.asname or a.name.split(".")[0] for a in inner.names)
