"""Tells what is known of the objects that a package keeps between calls, from the expressions that make them.

No list of the objects that can count calls is complete, so the module lists the makers of objects that are understood:
values that nothing changes, containers, patterns, locks, objects of the package's own classes. Every other object is
unknown. The module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from prime_lab_mcp.lab.base.syntax import last_name, own_nodes, parameter_names
from prime_lab_mcp.lab.rewards.bindings import parts_assigned, sets_attribute
from prime_lab_mcp.lab.rewards.kept_classes import Function, KeptClasses, Value, called_by_partial
from prime_lab_mcp.lab.rewards.lasting_state import first_name
from prime_lab_mcp.lab.rewards.outside_kinds import is_known, outside_kind
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, files_by_module
from prime_lab_mcp.lab.rewards.unchanging_uses import (
    CHANGEABLE,
    CONTAINER_MAKERS,
    FIELDS,
    LISTING,
    LOCK_MAKERS,
    NAMESPACES,
    NO_TABLE_MAKERS,
    OPENING,
    PATTERN_MAKERS,
    PATTERN_READS,
    PATTERN_VALUES,
    PLAIN_RESULTS,
    READS,
    STEADY_BASES,
    STEADY_MAKERS,
    TABLE_MAKERS,
    TABLE_READS,
    TEXT_READS,
    VALUE_MAKERS,
    WRAPPERS,
)
from prime_lab_mcp.lab.state.source_code import SourceFile, dotted_name

_COUNTING = ("random.", "shlex.", "configparser.")
"""Beginnings of makers that are named for what they read, and whose objects also count their calls."""


class Kind(IntEnum):
    """What is known of an object. Of two kinds that an object may have, the lower one counts."""

    UNKNOWN = 0
    """An object of a library of which nothing is known, such as an event, or a method that changes its object."""
    FOREIGN = 1
    """An object of a class of the package that builds on a class of which nothing is known."""
    CONTAINER = 2
    """A list, table, set or array."""
    LOCK = 3
    OWN = 4
    """An object of a class of the package, whose methods `lasting_state.py` reads."""
    PATTERN = 5
    FUNCTION = 6
    """A function or class, or a method that leaves its object as it is."""
    PLAIN = 7
    """A value that nothing changes, or an object of a library that is known to answer alike."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an object and of what it holds."""

    kind: Kind
    part: Kind = Kind.PLAIN
    """What the object holds, an iterator yields and the methods of an unknown object return."""
    made: str = ""
    """The class of the package that the object is of; empty for others."""

    @property
    def of_part(self) -> Known:
        """What is known of an entry of a container, or of an entry of an entry."""
        return Known(self.part, self.part)


PLAIN, FUNCTION, UNKNOWN = Known(Kind.PLAIN), Known(Kind.FUNCTION), Known(Kind.UNKNOWN, Kind.UNKNOWN)
_LINES = Known(Kind.UNKNOWN)
DATA = Known(Kind.CONTAINER, Kind.CONTAINER)

_DEEPEST = 40
"""Steps from one expression to the next after which nothing is known of an object."""


def least(found: Iterable[Known]) -> Known:
    """Return what is known of an object that may be any of several; the fewest is known of it."""
    kinds = list(found)
    kind, part = (min(of, default=Kind.PLAIN) for of in ([k.kind for k in kinds], [k.part for k in kinds]))
    return Known(kind, part, kinds[0].made if len({k.made for k in kinds}) == 1 else "")


def holding(found: Iterable[Known]) -> Kind:
    """Return the kind of the entries of a container that holds these objects."""
    return min((min(k.kind, k.part) for k in found), default=Kind.PLAIN)


class KeptKinds:
    """Answers what is known of the variables, attributes and expressions of a package."""

    def __init__(self, program: RewardProgram, files: Sequence[SourceFile]) -> None:
        self._program = program
        self._files = files_by_module(files)
        self._imported: dict[str, dict[str, str]] = {}
        self._variables: dict[str, dict[str, list[Value]]] = {}
        self.functions: dict[str, list[tuple[SourceFile, Function]]] = {}
        self.of_classes = KeptClasses([file for file in files if file.tree is not None])
        self.classes = self.of_classes.classes
        self._records: dict[str, dict[str, Value]] = {}
        """Maps an object that only holds attributes, by its number, to what these are given."""
        self._known: dict[int, Known] = {}
        self._local: dict[tuple[int, str], Known] = {}
        self._of_attributes: dict[tuple[str, str, bool], Known | None] = {}
        self._returned: dict[str, Known] = {}
        self._keeps: dict[str, bool] = {}
        self._running = 0
        for file in files:
            if file.tree is None:
                continue
            self._imported[file.path] = dict(program.imported[file.path])
            named = self._variables.setdefault(file.path, {})
            for statement in file.tree.body:
                for name, value, part in (b for n in _outside(statement) for b in parts_assigned(n)):
                    named.setdefault(name, []).append(Value(file, value, None, part))
            for node in ast.walk(file.tree):
                if isinstance(node, ast.Import):
                    tops = {a.name.partition(".")[0] for a in node.names if not a.asname}
                    self._imported[file.path].update({top: top for top in tops})
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.functions.setdefault(node.name, []).append((file, node))

    def full_name(self, file: SourceFile, node: ast.AST) -> str:
        """Return the full name of something imported, such as `re.compile`; empty for any other expression."""
        head, _, rest = (dotted_name(node) or "").partition(".")
        stands_for = self._imported[file.path].get(head, "")
        return f"{stands_for}.{rest}" if rest and stands_for else stands_for

    def at_module_level(self, file: SourceFile, node: ast.AST) -> Known | None:
        """Return what is known of a name of this module, or of another module of the package; None for other names."""
        if isinstance(node, ast.Name) and (own := self._named(file, node.id)) is not None:
            return own
        module, _, last = self.full_name(file, node).rpartition(".")
        other = self._files.get(module)
        return self._named(other, last) if other is not None else None

    def _named(self, file: SourceFile, name: str) -> Known | None:
        if values := self._variables[file.path].get(name):
            return least(self.of_value(value) for value in values)
        own = [*self.functions.get(name, ()), *([self.classes[name]] if name in self.classes else [])]
        return FUNCTION if any(where is file for where, _ in own) else None

    def variable(self, file: SourceFile, node: ast.AST) -> list[Value]:
        """Return what is assigned to a variable of this module or of another one of the package."""
        if isinstance(node, ast.Name) and node.id in self._variables[file.path]:
            return self._variables[file.path][node.id]
        module, _, last = self.full_name(file, node).rpartition(".")
        other = self._files.get(module)
        return self._variables[other.path].get(last, []) if other is not None else []

    def attribute(self, class_name: str, name: str, *, shared: bool) -> Known | None:
        """Return what is known of an attribute that a class of the package or one that it builds on sets.

        With `shared`, only an attribute that belongs to all objects of the class counts.
        """
        key = class_name, name, shared
        if key not in self._of_attributes:
            self._of_attributes[key] = None  # What refers to itself adds nothing.
            self._running += 1
            self._of_attributes[key] = self._attribute(class_name, name, shared)
            self._running -= 1
        return self._of_attributes[key]

    def _attribute(self, class_name: str, name: str, shared: bool) -> Known | None:
        if class_name in self._records:
            given = self._records[class_name].get(name)
            return self.of_value(given) if given is not None else None
        values = self.of_classes.values(class_name, name, shared=shared)
        line = self.of_classes.line(class_name)
        for base, given in self.of_classes.outside(name):
            of_class = last_name(base.node) in line
            if of_class or (not shared and self.of(base.file, base.node, base.owner).made in line and line):
                values.append(given)
        if values:
            return least(self.of_value(value) for value in values)
        found = self.of_classes.method(class_name, name) if not shared else None
        return self._cached_property(*found) if found is not None else None

    def _cached_property(self, file: SourceFile, method: Function) -> Known | None:
        """Return what is known of a property that an object computes once; None for other methods."""
        decorators = [last_name(decorator) for decorator in method.decorator_list]
        if "cached_property" in decorators or ("property" in decorators and len(decorators) > 1):
            return self._result(file, method, 1)
        return self._returned_attribute(file, method) if "property" in decorators else None

    def returned_by(self, class_name: str, method_name: str) -> Known | None:
        """Return what is known of the attributes that a method of a class of the package returns; None for others."""
        found = self.of_classes.method(class_name, method_name)
        return self._returned_attribute(*found) if found is not None else None

    def _returned_attribute(self, file: SourceFile, method: Function) -> Known | None:
        kept = [
            self.of(file, value, method, 1)
            for n in own_nodes(method)
            if isinstance(n, ast.Return) and isinstance(value := n.value, ast.Attribute)
        ]
        return least(kept) if kept else None

    def set_outside(self, node: ast.Attribute) -> Known | None:
        """Return what is known of an attribute that code sets on an object by the name of that object; None if no code
        does."""
        named = last_name(node.value)
        found = [
            self.of_value(given) for base, given in self.of_classes.outside(node.attr) if last_name(base.node) == named
        ]
        return least(found) if named and found else None

    def of_value(self, value: Value) -> Known:
        """Return what is known of a variable that gets this value."""
        key = id(value.node)
        if key not in self._known:
            self._known[key] = PLAIN  # What refers to itself adds nothing.
            self._running += 1
            self._known[key] = self.of(value.file, value.node, value.owner)
            self._running -= 1
        known = self._known[key]
        return known.of_part if value.part else known

    def of(self, file: SourceFile, node: ast.AST, owner: ast.AST | None, depth: int = 0) -> Known:
        """Return what is known of the object that an expression makes or names."""
        if depth > _DEEPEST or self._running > _DEEPEST:
            return UNKNOWN

        def inner(part: ast.AST) -> Known:
            return self.of(file, part, owner, depth + 1)

        match node:
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return Known(Kind.CONTAINER, holding(map(inner, parts)))
            case ast.Tuple(elts=parts):
                return Known(Kind.PLAIN, holding(map(inner, parts)))
            case ast.Dict(values=parts):
                return Known(Kind.CONTAINER, holding(map(inner, parts)))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
                return Known(Kind.CONTAINER, holding([inner(part)]))
            case ast.GeneratorExp(elt=part):
                return Known(Kind.UNKNOWN, holding([inner(part)]))
            case ast.IfExp(body=first, orelse=second):
                return least([inner(first), inner(second)])
            case ast.BinOp():
                return least(map(inner, _operands(node)))
            case ast.BoolOp(values=parts):
                return least(map(inner, parts))
            case ast.Await(value=part) | ast.Starred(value=part) | ast.NamedExpr(value=part):
                return inner(part)
            case ast.Subscript(value=part):
                return inner(part).of_part
            case ast.Lambda():
                return FUNCTION
            case ast.Name():
                return self._of_name(file, node, owner, depth)
            case ast.Attribute():
                return self._of_attribute(file, node, owner, depth)
            case ast.Call():
                return self._made(file, node, owner, depth)
            case _:
                return PLAIN

    def _of_name(self, file: SourceFile, node: ast.Name, owner: ast.AST | None, depth: int) -> Known:
        if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            if (id(owner), node.id) in self._local:
                return self._local[id(owner), node.id]
            own = [b for n in ast.walk(owner) for b in parts_assigned(n) if b[0] == node.id and not sets_attribute(n)]
            if own:
                self._local[id(owner), node.id] = PLAIN  # What refers to itself adds nothing.
                found = [(self.of(file, value, owner, depth + 1), part) for _, value, part in own if value is not node]
                known = least(known.of_part if part else known for known, part in found)
                self._local[id(owner), node.id] = known
                return known
            if node.id in parameter_names(owner):
                self._local[id(owner), node.id] = PLAIN  # What refers to itself adds nothing.
                known = least(map(self.of_value, self.of_classes.given(owner, node.id)))
                self._local[id(owner), node.id] = known
                return known
        return self.at_module_level(file, node) or PLAIN

    def _of_attribute(self, file: SourceFile, node: ast.Attribute, owner: ast.AST | None, depth: int) -> Known:
        if (known := self.at_module_level(file, node)) is not None:
            return known
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and owner is not None:
            return self.attribute(self.of_classes.class_of.get(id(owner), ""), node.attr, shared=False) or PLAIN
        if isinstance(node.value, ast.Name) and node.value.id in self.classes:
            return self.attribute(node.value.id, node.attr, shared=False) or FUNCTION
        if self.full_name(file, node):
            return PLAIN
        if isinstance(node.value, ast.Name) and node.value.id in CHANGEABLE:
            return FUNCTION if node.attr in READS | TEXT_READS else UNKNOWN
        held = self.of(file, node.value, owner, depth + 1)
        known = self.attribute(held.made, node.attr, shared=False) if held.made else self.read(held, node.attr)
        return known or self.set_outside(node) or PLAIN

    def read(self, held: Known, attribute: str) -> Known | None:
        """Return what is known of an attribute of an object; None if it is none that the object is known to have."""
        if held.kind is Kind.CONTAINER:
            return FUNCTION if attribute in (TABLE_READS | TEXT_READS) - {"__iter__"} else UNKNOWN
        if held.kind is Kind.PATTERN:
            known = FUNCTION if attribute in PATTERN_READS else PLAIN if attribute in PATTERN_VALUES else UNKNOWN
            return known
        return UNKNOWN if held.kind is Kind.UNKNOWN else None

    def _made(self, file: SourceFile, call: ast.Call, owner: ast.AST | None, depth: int) -> Known:
        """Return what is known of the result of a call."""
        full = self.full_name(file, call.func)
        last = full.rpartition(".")[2] or (call.func.id if isinstance(call.func, ast.Name) else "")
        own = isinstance(call.func, ast.Name) or self._files.get(full.rpartition(".")[0]) is not None
        if own and last in self.classes:
            return Known(self.of_class(last), made=last)
        if own and last in self.functions:
            return self.returned(last, depth + 1)
        if full:
            return self._of_library(file, call, full, owner, depth)
        for value in self.variable(file, call.func):
            prepared = called_by_partial(value.node)
            if prepared is not None:
                return self._made(value.file, prepared, value.owner, depth + 1)
        if isinstance(call.func, ast.Name):
            return self._of_builtin(file, call, owner, depth)
        if not isinstance(call.func, ast.Attribute):
            return self.of(file, call.func, owner, depth + 1) if isinstance(call.func, ast.Call) else DATA
        name = call.func.attr
        held = self.of(file, call.func.value, owner, depth + 1)
        if name in self.functions and held.kind not in (Kind.PLAIN, Kind.CONTAINER):
            return self.returned(name, depth + 1)
        if held.kind is Kind.PATTERN:
            reads = PATTERN_READS - {"finditer"}
            return Known(Kind.CONTAINER) if name in ("findall", "split") else PLAIN if name in reads else UNKNOWN
        if held.kind is Kind.CONTAINER:
            if name in TABLE_READS - {"__iter__"}:
                return Known(Kind.CONTAINER, held.part)
            return DATA if name in TEXT_READS - {"__iter__"} else UNKNOWN
        if held.kind in (Kind.PLAIN, Kind.FUNCTION):
            return _LINES if name in OPENING else Known(Kind.CONTAINER) if name in LISTING else Known(held.kind)
        return held.of_part

    def _of_library(self, file: SourceFile, call: ast.Call, full: str, owner: ast.AST | None, depth: int) -> Known:
        if full in PATTERN_MAKERS:
            return Known(Kind.PATTERN)
        if full in LOCK_MAKERS:
            return Known(Kind.LOCK)
        if full in WRAPPERS:
            return FUNCTION
        if full.startswith(PLAIN_RESULTS):
            return _LINES
        if full in ("csv.reader", "csv.DictReader"):
            return Known(Kind.UNKNOWN, Kind.CONTAINER)
        if full.startswith("itertools."):
            return Known(
                Kind.UNKNOWN, min((self.of(file, a, owner, depth + 1).part for a in call.args), default=Kind.PLAIN)
            )
        if full == "functools.partial":
            return least(self.of(file, part, owner, depth + 1) for part in call.args)
        if full in NAMESPACES:
            made = f"{full} {id(call)}"
            self._records[made] = {k.arg: Value(file, k.value, owner) for k in call.keywords if k.arg}
            return Known(Kind.PLAIN, made=made)
        if full in FIELDS:
            factory = [k.value for k in call.keywords if k.arg in ("default_factory", "factory")]
            return least(self._made(file, ast.Call(made, [], []), owner, depth + 1) for made in factory)
        if full.startswith(STEADY_MAKERS):
            return PLAIN
        if full.startswith(TABLE_MAKERS) and not full.startswith(NO_TABLE_MAKERS):
            return Known(Kind.CONTAINER, holding(self.of(file, a, owner, depth + 1) for a in call.args[:1]))
        # What is named already, as a module of which nothing is known or as a read, is not named once more.
        named = not is_known(full.rpartition(".")[0]) or bool(outside_kind(full))
        return PLAIN if named and not full.startswith(_COUNTING) else UNKNOWN

    def _of_builtin(self, file: SourceFile, call: ast.Call, owner: ast.AST | None, depth: int) -> Known:
        assert isinstance(call.func, ast.Name)
        name = call.func.id
        given = [self.of(file, part, owner, depth + 1) for part in call.args]
        if name in CONTAINER_MAKERS:
            return Known(Kind.CONTAINER, min((k.part for k in given), default=Kind.PLAIN))
        if name in ("tuple", "frozenset", "max", "min"):
            return Known(Kind.PLAIN, min((k.part for k in given), default=Kind.PLAIN))
        if name == "getattr" and len(call.args) > 1:
            read = call.args[1]
            if isinstance(read, ast.Constant) and isinstance(read.value, str):
                return self.of(file, ast.Attribute(call.args[0], read.value, ast.Load()), owner, depth + 1)
            return given[0]
        if name in VALUE_MAKERS:
            return PLAIN
        if name == "open":
            return _LINES
        if name == "map" and call.args:
            return Known(Kind.UNKNOWN, holding([self.of(file, ast.Call(call.args[0], [], []), owner, depth + 1)]))
        if name in ("filter", "zip", "enumerate", "reversed", "iter"):
            return Known(Kind.UNKNOWN, min((k.part for k in given), default=Kind.PLAIN))
        return UNKNOWN if hasattr(builtins, name) else DATA

    def of_class(self, name: str) -> Kind:
        """Return the kind of the objects of a class of the package."""
        return min(
            (Kind.FOREIGN if self._is_foreign(file, base) else Kind.OWN)
            for file, node in (self.classes[one] for one in self.of_classes.line(name))
            for base in (*node.bases, ast.Name("object", ast.Load()))
        )

    def _is_foreign(self, file: SourceFile, base: ast.expr) -> bool:
        """Whether a class is built on a class of which nothing is known, or on a container."""
        named = base.value if isinstance(base, ast.Subscript) else base
        last = (dotted_name(named) or "").rpartition(".")[2]
        if last in self.classes:
            return False
        full = self.full_name(file, named)
        of_library = is_known(full.rpartition(".")[0]) and not full.startswith(STEADY_BASES)
        return last in CHANGEABLE or bool(full and of_library)

    def keeps(self, name: str) -> bool:
        """Whether a function of the package returns what outlives its call: what it caches, or a module's variable."""
        if name not in self._keeps:
            self._keeps[name] = any(self._keeps_result(file, f) for file, f in self.functions.get(name, ()))
        return self._keeps[name]

    def _keeps_result(self, file: SourceFile, function: Function) -> bool:
        if any("cache" in ast.unparse(decorator) for decorator in function.decorator_list):
            return True
        own = list(own_nodes(function))
        variables = {*parameter_names(function), *(b[0] for n in own for b in parts_assigned(n))}
        return any(
            isinstance(value, ast.Name | ast.Attribute | ast.Subscript)
            and first_name(value) not in variables
            and self.at_module_level(
                file, value if isinstance(value, ast.Name) else ast.Name(first_name(value), ast.Load())
            )
            is not None
            for n in own
            if isinstance(n, ast.Return) and (value := n.value) is not None
        )

    def returned(self, name: str, depth: int = 0) -> Known:
        """Return what is known of the result of a function of the package."""
        if name not in self._returned:
            self._returned[name] = PLAIN  # A function that calls itself adds nothing.
            self._returned[name] = least(self._result(file, f, depth) for file, f in self.functions[name])
        return self._returned[name]

    def _result(self, file: SourceFile, function: Function, depth: int) -> Known:
        own = list(own_nodes(function))
        yielded = [n.value for n in own if isinstance(n, ast.Yield | ast.YieldFrom) and n.value is not None]
        if yielded:  # A decorator makes a context of such a function.
            part = holding(self.of(file, value, function, depth + 1) for value in yielded)
            return PLAIN if function.decorator_list else Known(Kind.UNKNOWN, part)
        returns = [n.value for n in own if isinstance(n, ast.Return) and n.value is not None]
        return least(self.of(file, value, function, depth + 1) for value in returns)


def _operands(node: ast.expr) -> list[ast.expr]:
    """Return the operands of an operator, and of those on its left: long texts are added up in hundreds of steps."""
    found = []
    while isinstance(node, ast.BinOp):
        found.append(node.right)
        node = node.left
    return [node, *found]


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that run at import, in blocks too: none of functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    yield node
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for child in ast.iter_child_nodes(node):
            yield from _outside(child)
