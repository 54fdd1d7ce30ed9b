"""Finds code that reaches names without writing them as attributes: by a computed name, a text, a pattern or a table.

Python, and libraries that honest rewards use, have small languages in texts and patterns that look attributes up:
format texts, class patterns, `operator.attrgetter`, annotations that pydantic evaluates, queries of tables, types of
arrays. What such code may use is listed here; everything else is named. The module reads the syntax tree and runs no
code.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from string import Formatter

from prime_lab_mcp.lab.rewards.outside_kinds import LOOKUP, TIMERS, UNLISTED
from prime_lab_mcp.lab.rewards.outside_names import ResolvedNames
from prime_lab_mcp.lab.rewards.possible_texts import PossibleTexts
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram
from prime_lab_mcp.lab.state.source_code import SourceFile

FORMATTED = "names in format texts"
PRIVATE = "private names of other code"
REPLACED = "other code, which it changes"
_TELLING_WORDS = """
globals subclasses builtins import self code closure mro bases base dict getattribute getattr reduce reduce_ex defaults
kwdefaults loader spec func wrapped traceback
"""
_HARMLESS_WORDS = """
init name class doc file str repr len getitem setitem delitem contains iter next eq ne lt le gt ge hash call index enter
exit aenter aexit add radd sub rsub mul rmul truediv floordiv mod pow neg pos abs int float bool post_init new module
qualname members annotations cause context init_subclass set_name package path version all reversed format and or xor
invert round trunc floor ceil await aiter anext main future traceback dict spec loader cached
"""
_TELLING = frozenset(f"__{word}__" for word in _TELLING_WORDS.split())
"""Names with two underscores that lead to other code, whoever defines them."""
_HARMLESS_DUNDERS = frozenset(f"__{word}__" for word in _HARMLESS_WORDS.split())
"""Names with two underscores that show nothing, or that other rules judge."""
_PUBLIC_PRIVATE = frozenset(
    ["_", "_replace", "_asdict", "_fields", "_make", "_field_defaults", "_missing_", "_value_", "_name_"]
)
"""Names with one underscore that the standard library documents, of named tuples and enums."""
_TYPES_OF_TIME = re.compile(r"datetime64|\A[<>=|]?M8")
_IN_TEXTS = re.compile(
    "|".join(sorted(_TELLING - {"__dict__", "__self__", "__code__", "__base__", "__spec__"} | {"__annotations__"}))
)
_LOOKS_UP = frozenset({"getattr", "builtins.getattr", "inspect.getattr_static"})
_GETTERS = frozenset({"operator.attrgetter", "operator.methodcaller"})
_OF_VERIFIERS = frozenset({"config", "data", "taskset", "task", "trace", "state", "env", "model", "runtime", "agents"})
"""Attributes whose objects verifiers makes."""
_PLAIN = frozenset(
    ["str", "int", "float", "len", "round", "repr", "join", "strip", "lower", "upper", "dumps", "replace"]
)
"""Functions whose result is a text or a number."""
_FILLS = frozenset(["append", "add", "update", "setdefault", "extend", "insert", "appendleft"])
"""Methods that put something into a list or table, where a later call may find it."""
_BUILDS = (ast.BinOp, ast.JoinedStr, ast.Call)


class NameLookups:
    """Finds the lookups of names in one file of a package."""

    def __init__(self, program: RewardProgram, file: SourceFile, names: ResolvedNames, texts: PossibleTexts) -> None:
        self._file, self._names, self._texts = file, names, texts
        self._own = _own_names(program)
        imported = set(program.imported[file.path].values())
        self._with_tables = any(name.partition(".")[0] in ("pandas", "polars") for name in imported | names.imports)
        self._with_arrays = self._with_tables or any(n.partition(".")[0] == "numpy" for n in imported | names.imports)

    def in_nodes(self, owner: ast.AST | None, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str, int]]:
        """Yield (kind, name, line) of every lookup in the nodes of a function; `owner` is None for code at import."""
        for node in nodes:
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Attribute):
                yield from ((kind, name, line) for kind, name in self._of_attribute(node, owner))
            elif isinstance(node, ast.Call):
                yield from ((kind, name, line) for kind, name in self._of_call(node, owner))
                changed = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS else None
                if isinstance(changed, ast.Attribute) and self._is_imported(changed, owner):
                    yield REPLACED, ast.unparse(node)[:60], line
            elif (
                isinstance(node, ast.Subscript)
                and "pydantic.RootModel" in self._names.of(node.value)
                and self._is_made(node.slice, owner)
            ):
                yield LOOKUP, ast.unparse(node)[:60], line
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                table, replaces = node.value, "sys.modules" in self._names.of(node.value)  # which has a rule of its own
                if isinstance(table, ast.Attribute) and not replaces and self._is_imported(table, owner):
                    yield REPLACED, ast.unparse(node)[:60], line
            elif isinstance(node, ast.Match) and self._names.is_module(node.subject):
                yield LOOKUP, ast.unparse(node.subject)[:60], line
            elif isinstance(node, ast.MatchClass):
                yield from ((kind, name, line) for kind, name in self._of_pattern(node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if found := _IN_TEXTS.search(node.value):
                    yield LOOKUP, found.group(), line
                if self._with_arrays and _TYPES_OF_TIME.search(node.value):
                    yield TIMERS, node.value[:60], line
            elif (
                isinstance(node, ast.AnnAssign | ast.arg)
                and node.annotation is not None
                and (_is_built(node.annotation) or self._is_data(node.annotation, owner))
            ):
                yield LOOKUP, ast.unparse(node.annotation)[:60], line

    def _is_data(self, annotation: ast.expr, owner: ast.AST | None) -> bool:
        """Whether an annotation holds an entry of a table of the package, whose text pydantic would evaluate."""
        return any(
            self._is_entry(entry, owner)
            for node in _types_in(annotation)
            for entry in [node, *(self._texts.bound(node.id, self._file, owner) if isinstance(node, ast.Name) else ())]
        )

    def _is_made(self, given: ast.expr, owner: ast.AST | None) -> bool:
        """Whether a type is no type that stands in the code: pydantic evaluates a text in its place."""
        if _is_built(given) or self._is_data(given, owner) or isinstance(given, ast.Call):
            return True
        if not isinstance(given, ast.Name) or self._names.is_own(given) or self._names.is_import(given):
            return False
        made = self._texts.bound(given.id, self._file, owner)
        return any(isinstance(one, ast.expr) and (isinstance(one, ast.Call) or _is_built(one)) for one in made)

    def _is_entry(self, node: ast.AST, owner: ast.AST | None) -> bool:
        """Whether an expression is an entry of a table that the package makes or loads."""
        match node:
            case ast.Subscript(value=ast.Name() as table, slice=ast.Constant()):
                named = self._names.is_own(table)
            case ast.Subscript(value=ast.Name() as table) | ast.Call(func=ast.Attribute(value=ast.Name() as table)):
                named = False
            case _:
                return False
        made = self._texts.bound(table.id, self._file, owner)
        return any(isinstance(one, ast.Call | ast.Dict | ast.DictComp) for one in made) or (named and not made)

    def _of_attribute(self, node: ast.Attribute, owner: ast.AST | None) -> Iterator[tuple[str, str]]:
        foreign = self._is_foreign(node.value, owner)
        if not isinstance(node.ctx, ast.Load):
            if foreign and self._is_imported(node.value, owner):
                yield REPLACED, ast.unparse(node)[:60]
        elif node.attr == "__dict__":
            if not self._has_own_table(node.value, owner):
                yield LOOKUP, ast.unparse(node)[:60]
        elif self._is_private(node.attr, foreign):
            yield (LOOKUP if node.attr.startswith("__") else PRIVATE), node.attr
        if node.attr in ("format", "format_map") and id(node) not in self._names.called:
            text = isinstance(node.value, ast.Name) and node.value.id == "str"
            if text or self._texts.of(node.value, self._file, owner):
                yield FORMATTED, ast.unparse(node)[:60]

    def _of_call(self, node: ast.Call, owner: ast.AST | None) -> Iterator[tuple[str, str]]:
        text = ast.unparse(node)[:60]
        called = self._names.of(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if (last == "TypeAdapter" or "pydantic.TypeAdapter" in called) and any(
            self._is_made(part, owner) for part in node.args[:1]
        ):
            yield LOOKUP, text
        if any(k.arg == "eval_str" and not _is_false(k.value) for k in node.keywords):
            yield LOOKUP, text
        if called & _LOOKS_UP and len(node.args) > 1:
            yield from self._of_name(node.args[1], node.args[0], owner, text)
        elif called & _GETTERS:
            for read in node.args if "operator.attrgetter" in called else node.args[:1]:
                yield from self._of_name(read, None, owner, text)
        elif last == "__getattribute__" and node.args:
            yield from self._of_name(node.args[-1], None, owner, text)
        elif called & {"setattr", "builtins.setattr", "delattr"} and node.args:
            if self._is_imported(node.args[0], owner):
                yield REPLACED, text
        elif called & {"vars", "builtins.vars", "inspect.getmembers", "inspect.getmembers_static"}:
            if not node.args or not self._has_own_table(node.args[0], owner):
                yield LOOKUP, text
        elif last in ("format", "format_map") and isinstance(node.func, ast.Attribute):
            yield from self._of_format(node, node.func.value, owner, text)
        if last in ("query", "eval") and isinstance(node.func, ast.Attribute) and self._with_tables:
            asked = self._texts.of(node.args[0], self._file, owner) if node.args else None
            if asked is None or any("@" in query or "__" in query for query in asked):
                yield LOOKUP, text
        if self._with_arrays:
            kinds = [k.value for k in node.keywords if k.arg == "dtype"] + (node.args[:1] if last == "astype" else [])
            if any(not isinstance(k, ast.Name | ast.Attribute | ast.Constant | ast.Dict) for k in kinds):
                yield UNLISTED, text

    def _of_name(
        self, name: ast.expr, whose: ast.expr | None, owner: ast.AST | None, text: str
    ) -> Iterator[tuple[str, str]]:
        """Yield the lookup of an attribute whose name is an expression."""
        possible = self._texts.of(name, self._file, owner)
        foreign = whose is None or self._is_foreign(whose, owner)
        if possible is None:
            if foreign or not self._is_of_package(whose, owner) or isinstance(name, _BUILDS):
                yield LOOKUP, text
            return
        parts = {part for one in possible for part in one.split(".")}
        if private := next((p for p in sorted(parts) if self._is_private(p, foreign)), ""):
            yield (LOOKUP if private.startswith("__") else PRIVATE), private

    def _of_format(
        self, node: ast.Call, template: ast.expr, owner: ast.AST | None, text: str
    ) -> Iterator[tuple[str, str]]:
        possible = self._texts.of(template, self._file, owner)
        given = [*node.args, *(k.value for k in node.keywords)]
        if possible is None:
            if not all(self._is_plain(value, owner) for value in given):
                yield FORMATTED, text
        elif any("." in field or "__" in field for one in possible for field in _fields(one)):
            yield FORMATTED, text

    def _is_plain(self, value: ast.expr, owner: ast.AST | None) -> bool:
        """Whether an argument of a format text is a text or a number, of which no attribute leads anywhere."""
        if isinstance(value, ast.JoinedStr | ast.Compare | ast.UnaryOp):
            return True
        if isinstance(value, ast.Call):
            called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
            return called in (
                "str",
                "int",
                "float",
                "len",
                "round",
                "repr",
                "join",
                "strip",
                "lower",
                "dumps",
                "replace",
            )
        return self._texts.of(value, self._file, owner) is not None

    def _of_pattern(self, node: ast.MatchClass) -> Iterator[tuple[str, str]]:
        if not node.kwd_attrs:
            return
        name = ast.unparse(node.cls)
        known = self._names.is_own(node.cls) or "." in "".join(self._names.of(node.cls))
        private = next((attr for attr in node.kwd_attrs if self._is_private(attr, True)), "")
        if private or not known or name in ("object", *dir(builtins)):
            yield LOOKUP, ast.unparse(node)[:60]

    def _is_private(self, name: str, foreign: bool) -> bool:
        """Whether a name is private in code that the package does not make. `foreign`: the object surely is such."""
        if not name.startswith("_") or name in _PUBLIC_PRIVATE:
            return False
        if name.startswith("__") and name.endswith("__"):
            return name in _TELLING - _HARMLESS_DUNDERS or name not in _HARMLESS_DUNDERS | self._own
        return foreign or name not in self._own

    def _is_imported(self, node: ast.AST, owner: ast.AST | None, depth: int = 0) -> bool:
        """Whether an expression is a module, class or function of another package, also under a variable's name."""
        if depth > 6:
            return False
        if isinstance(node, ast.Name):
            if self._names.is_import(node):
                return True
            values = self._texts.bound(node.id, self._file, owner)
            return any(self._is_imported(value, owner, depth + 1) for value in values)
        if isinstance(node, ast.Attribute):
            return self._is_imported(node.value, owner, depth + 1)
        return isinstance(node, ast.Call) and self._names.is_module(node)

    def _is_foreign(self, node: ast.AST, owner: ast.AST | None, depth: int = 0) -> bool:
        """Whether an expression surely is of another package: an import, or what a call of an import returns."""
        if depth > 6:
            return False
        if isinstance(node, ast.Name) and not self._names.is_import(node):
            values = self._texts.bound(node.id, self._file, owner)
            return any(self._is_foreign(value, owner, depth + 1) for value in values)
        if isinstance(node, ast.Call | ast.Subscript | ast.Await):
            inner = node.func if isinstance(node, ast.Call) else node.value
            return self._is_foreign(inner, owner, depth + 1)
        if isinstance(node, ast.Attribute):
            return self._is_foreign(node.value, owner, depth + 1)
        return self._is_imported(node, owner)

    def _is_of_package(self, node: ast.AST | None, owner: ast.AST | None, depth: int = 0) -> bool:
        """Whether an expression surely is an object, class or function of the package itself."""
        if depth > 6 or node is None:
            return False
        if isinstance(node, ast.Name):
            if node.id in ("self", "cls") or self._names.is_own(node):
                return True
            values = self._texts.bound(node.id, self._file, owner)
            return bool(values) and all(self._is_of_package(value, owner, depth + 1) for value in values)
        if isinstance(node, ast.Call | ast.Await | ast.Subscript):
            inner = node.func if isinstance(node, ast.Call) else node.value
            return self._is_of_package(inner, owner, depth + 1)
        own = isinstance(node, ast.Attribute) and node.attr not in _OF_VERIFIERS
        return own and isinstance(node, ast.Attribute) and self._is_of_package(node.value, owner, depth + 1)

    def _has_own_table(self, node: ast.AST, owner: ast.AST | None) -> bool:
        """Whether an object's table of attributes may be read as a whole: an object of the package or a parameter."""
        if isinstance(node, ast.Name):
            return not self._is_foreign(node, owner)
        return self._is_of_package(node, owner)


def _own_names(program: RewardProgram) -> frozenset[str]:
    """Return the names that the package itself gives to functions, classes, variables, attributes and fields."""
    names: set[str] = set()
    for file in program.code.files:
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
    return frozenset(names)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _types_in(annotation: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an annotation, without what its calls are given, such as the bounds of a field."""
    yield annotation
    if not isinstance(annotation, ast.Call):
        for child in ast.iter_child_nodes(annotation):
            yield from _types_in(child)


def _is_built(annotation: ast.expr) -> bool:
    """Whether an annotation is put together when the code runs, so that pydantic may evaluate any text."""
    added = (isinstance(n, ast.BinOp) and not isinstance(n.op, ast.BitOr) for n in ast.walk(annotation))
    return any(added) or any(isinstance(n, ast.JoinedStr | ast.Lambda) for n in ast.walk(annotation))


def _fields(template: str) -> list[str]:
    """Return the names of the fields of a format text, also of those inside of format specifications."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        return []
    inner = [field for _, _, spec, _ in parsed if spec for field in _fields(spec)]
    return [field for _, field, _, _ in parsed if field] + inner
