"""Finds code that reads files above its own package, where an installation has the README and the metadata.

The analysis reads the syntax tree and runs no code. Every path has a level: the number of folders that it lies above
its file. If a name that is joined to a path outside of the package is not literal, it may be the name of any file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch

from prime_lab_mcp.lab.base.syntax import last_name

OWN_NAMES = ("README.md", "METADATA", "pyproject.toml")
"""Files that describe a distribution to itself."""
_FAR = 99
"""The level of a path that may lie anywhere."""
_ANYWHERE = frozenset(
    {"get_paths", "get_path", "getsitepackages", "getusersitepackages", "getcwd", "cwd", "submodule_search_locations"}
)
_PATH_PRESERVING = frozenset(
    {"Path", "PurePath", "PosixPath", "str", "fspath", "resolve", "absolute", "abspath", "realpath", "normpath",
     "as_posix", "expanduser", "with_suffix"}
)  # fmt: skip
"""Functions and methods whose result is the path that they are called with."""
_JOINS = frozenset({"join", "joinpath", "with_name", "open_text"})
_HARMLESS = frozenset(
    {"print", "insert", "append", "relative_to", "is_relative_to", "exists", "is_dir", "is_file", "mkdir", "len",
     "isinstance", "repr", "hash", "parse", "debug", "info", "warning", "dirname", "basename", "get"}
) | _PATH_PRESERVING | _JOINS  # fmt: skip
_PATTERNED = frozenset({"glob", "rglob"})


def outside_line(nodes: list[ast.AST], path: str) -> tuple[int, str] | None:
    """Return number and reason of the first line that may read a file of its own distribution outside of its
    package. `nodes` are all nodes of the file."""
    depth = path.removeprefix("src/").count("/") + 1
    levels = _PathLevels(nodes, depth)
    return min(levels.lines(), default=None)


class _PathLevels:
    """The levels of all paths in one file. A path of level `depth` or more lies outside of the package."""

    def __init__(self, nodes: list[ast.AST], depth: int) -> None:
        self._nodes = nodes
        self._depth = depth
        self._known: dict[str, int] = {"__file__": 0, "__path__": 1}
        bound = list(_bound(nodes))
        for _ in range(3):  # a path made from a path made from a path
            for name, value in bound:
                level = self._level(value)
                if level is not None:
                    self._known[name] = max(level, self._known.get(name, 0))

    def lines(self) -> Iterator[tuple[int, str]]:
        for node in self._nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and self._is_outside(node.left):
                if _may_be_own(node.right):
                    yield node.lineno, "it opens a file outside of its package whose name is not literal"
            elif isinstance(node, ast.Call) and self._reads(node):
                yield node.lineno, "it reads a folder outside of its package"

    def _reads(self, node: ast.Call) -> bool:
        name = last_name(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        outside = owner is not None and self._is_outside(owner)
        handed = any(self._is_outside(a) for a in _arguments(node))
        if name == "with_name" and owner is not None and (self._level(owner) or 0) + 1 >= self._depth:
            return self._level(owner) is not None and any(map(_may_be_own, node.args))
        if name in _JOINS:
            return (outside or handed) and any(_may_be_own(a) for a in node.args if not self._is_outside(a))
        if name in _PATTERNED and outside:
            return any(map(_may_be_own, node.args))
        return (outside or handed) and name not in _HARMLESS

    def _is_outside(self, node: ast.AST) -> bool:
        level = self._level(node)
        return level is not None and level >= self._depth

    def _level(self, node: ast.AST, steps: int = 0) -> int | None:
        """The level of an expression's path; None if the expression is not such a path."""
        if steps > 30:
            return None
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node, steps)
        if isinstance(node, ast.Subscript):
            inner = node.value
            if isinstance(inner, ast.Attribute) and inner.attr == "parents":
                base = self._level(inner.value, steps + 1)
                index = node.slice.value if isinstance(node.slice, ast.Constant) else None
                return None if base is None else base + index + 1 if isinstance(index, int) and index >= 0 else _FAR
            return self._level(inner, steps + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            base = self._level(node.left, steps + 1)
            return None if base is None or not _climbs(node.right) else _FAR
        if isinstance(node, ast.JoinedStr):
            parts = [p.value for p in node.values if isinstance(p, ast.FormattedValue)]
            return max((n for p in parts if (n := self._level(p, steps + 1)) is not None), default=None)
        return self._of_call(node, steps) if isinstance(node, ast.Call) else None

    def _of_attribute(self, node: ast.Attribute, steps: int) -> int | None:
        if node.attr in self._known and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self._known[node.attr]
        if node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys":
            return _FAR
        base = self._level(node.value, steps + 1)
        return None if base is None else base + (node.attr == "parent")

    def _of_call(self, node: ast.Call, steps: int) -> int | None:
        name = last_name(node.func)
        if name in _ANYWHERE:
            return _FAR
        if name == "files":
            return 1  # importlib.resources
        inner = node.args[0] if node.args else None
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        for part in (owner, inner):
            base = self._level(part, steps + 1) if part is not None else None
            if base is None:
                continue
            if name == "dirname":
                return base + 1
            if name in _PATH_PRESERVING:
                return base
            if name in _JOINS:
                return _FAR if any(map(_climbs, node.args)) else None
        return None


_BINDING, _LOOPING = (ast.AnnAssign, ast.NamedExpr), (ast.For, ast.comprehension)


def _bound(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield every name or attribute that is bound, with the expression that it is bound to."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((name, node.value) for target in node.targets if (name := last_name(target)))
        elif isinstance(node, _BINDING) and node.value is not None and (name := last_name(node.target)):
            yield name, node.value
        elif isinstance(node, _LOOPING) and (name := last_name(node.target)):
            yield name, node.iter


def _arguments(node: ast.Call) -> Iterator[ast.AST]:
    for value in (*node.args, *(k.value for k in node.keywords)):
        yield from value.elts if isinstance(value, ast.List | ast.Tuple) else (value,)


def _climbs(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) and ".." in n.value for n in ast.walk(node))


def _may_be_own(node: ast.AST) -> bool:
    """Whether a name that is joined to a path may be one of `OWN_NAMES`."""
    last = _pattern(node).rpartition("/")[2]
    return any(fnmatch(own.lower(), last.lower()) for own in OWN_NAMES)


def _pattern(node: ast.AST) -> str:
    """The file name as a glob pattern, with `*` for every part that is not literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "*"
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    return "*"
