"""Recognises expressions that tell where a package's code lies, or which program runs it.

A wheel in training lies in `lib/pythonX.Y/site-packages`, a folder under test does not. A path of the code that is
compared with a text can therefore tell the two apart. Paths to files of the package are no such expression: code joins
them and opens the result.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

PLACES = frozenset({"__file__", "__path__", "os.getcwd", "pathlib.Path.cwd", "sys.executable", "sys.prefix"})
"""Names that hold a path of the code or of its process."""
PLACE_ATTRIBUTES = frozenset({"co_filename", "__file__", "__path__", "__cached__"})
"""Attributes with such a path, of objects of any type."""
PLACE_FUNCTIONS = frozenset(
    {
        "inspect.getfile",
        "inspect.getsourcefile",
        "inspect.getabsfile",
        "inspect.getmodule",
        "importlib.resources.files",
        "sys.exec_prefix",
        "sys.base_prefix",
    }
)
"""Further names with such a path."""
_PROGRAM = "__main__"
_KEEPS = frozenset({"str", "len", "hash", "repr", "list", "tuple", "pathlib.Path", "pathlib.PurePath", "os.fspath"})
_KEEPS_PATH = ("os.path.", "posixpath.")
_METHODS = frozenset(
    {"resolve", "absolute", "as_posix", "lower", "upper", "casefold", "split", "rsplit", "partition", "rpartition",
     "strip", "replace", "count", "encode"}
)  # fmt: skip
_PARTS = frozenset({"parent", "parents", "name", "stem", "parts", "drive", "anchor"})
_TEXT_TESTS = frozenset({"startswith", "endswith", "find", "index", "count", "is_relative_to", "__contains__", "match"})
_SEARCHES = frozenset({"match", "search", "fullmatch", "findall", "finditer", "fnmatch", "fnmatchcase"})

Names = Callable[[ast.AST], set[str]]


class OwnPlaces:
    """The expressions of one file that are a path of the code. `names` resolves an expression to full names."""

    def __init__(self, names: Names, bindings: list[tuple[str, ast.expr]]) -> None:
        self._names = names
        self._variables: set[str] = set()
        for _ in range(3):  # a part of a part of a path
            self._variables |= {target for target, value in bindings if self.is_place(value)}

    def is_place(self, node: ast.AST) -> bool:
        """Whether an expression is a path of the code, a part of one, or its length."""
        if isinstance(node, ast.Name):
            return node.id in self._variables or bool(self._names(node) & PLACES)
        if isinstance(node, ast.Attribute):
            if node.attr in PLACE_ATTRIBUTES or self._names(node) & (PLACES | PLACE_FUNCTIONS):
                return True
            return node.attr in _PARTS and self.is_place(node.value)
        if isinstance(node, ast.Subscript):
            return self.is_place(node.value)
        if isinstance(node, ast.BoolOp):
            return any(map(self.is_place, node.values))
        if not isinstance(node, ast.Call):
            return False
        called = self._names(node.func)
        if called & (PLACES | PLACE_FUNCTIONS) or _gets_attribute(node, called):
            return True
        if called & _KEEPS or any(name.startswith(_KEEPS_PATH) for name in called):
            return any(self.is_place(argument) for argument in node.args[:1])
        method = node.func if isinstance(node.func, ast.Attribute) else None
        return method is not None and method.attr in _METHODS and self.is_place(method.value)

    def is_tested(self, node: ast.AST) -> bool:
        """Whether an expression compares or searches a path of the code with a text, a number or another such path."""
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            places = sum(map(self.is_place, parts))
            return places > 1 or (places == 1 and any(map(_is_stated, parts)))
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_TESTS and self.is_place(node.func.value):
            return any(self.is_place(argument) or _is_stated(argument) for argument in node.args)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called in _SEARCHES and any(map(self.is_place, node.args))


def reads_program(names: set[str]) -> bool:
    """Whether full names stand for the program that runs the code, or for something in it."""
    return any(name == _PROGRAM or name.startswith(f"{_PROGRAM}.") for name in names)


def imports_program(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a statement imports the program that runs the code."""
    if isinstance(node, ast.ImportFrom):
        return node.module == _PROGRAM and not node.level
    return any(alias.name == _PROGRAM for alias in node.names)


def _gets_attribute(node: ast.Call, called: set[str]) -> bool:
    """Whether a call is `getattr(x, "co_filename")`, or another such attribute by its name."""
    name = node.args[1] if len(node.args) > 1 else None
    stated = isinstance(name, ast.Constant) and name.value in PLACE_ATTRIBUTES
    return stated and bool(called & {"getattr", "builtins.getattr"})


def _is_stated(node: ast.AST) -> bool:
    """Whether an expression is a text or number that stands in the code. None is neither."""
    if isinstance(node, ast.Constant):
        return node.value is not None and not isinstance(node.value, bool)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_stated, node.elts))
    return isinstance(node, ast.JoinedStr)
