"""Reads the classes of a package: on what they build, which methods they have, and what their attributes are given.

An attribute gets what its class assigns to it, what a constructor is called with, and what code outside of the class
sets. kept_kinds.py tells what is known of these expressions. The module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.syntax import called_name, last_name, named_parameters
from prime_lab_mcp.lab.rewards.bindings import parts_assigned, sets_attribute
from prime_lab_mcp.lab.state.source_code import SourceFile, dotted_name

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Value:
    """An expression that is assigned to a name: where, in which function, and whether the name gets a part of it."""

    file: SourceFile
    node: ast.AST
    owner: ast.AST | None = None
    part: bool = False


class KeptClasses:
    """Answers what the attributes of the classes of a package, and the parameters of their constructors, are given."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.classes: dict[str, tuple[SourceFile, ast.ClassDef]] = {}
        self.class_of: dict[int, str] = {}
        """Maps the id of a method to its class."""
        self.shared: dict[str, set[str]] = {}
        """Maps a class to the attributes that its body sets for all objects."""
        self._attributes: dict[str, dict[str, list[Value]]] = {}
        self._lines: dict[str, list[str]] = {}
        self._calls: dict[str, list[Value]] = {}
        """Maps a name to the calls of what has this name."""
        self._outside: dict[str, list[tuple[Value, Value]]] = {}
        """Maps an attribute to the objects on which code sets it by their names, each with what it is given."""
        for file in files:
            for node in ast.walk(file.tree) if file.tree is not None else ():
                made = node if isinstance(node, ast.ClassDef) else _made_by_call(node)
                if made is not None:
                    self._add(file, made)
        for file in files:
            if file.tree is not None:
                self._find(file, file.tree, None)

    def _add(self, file: SourceFile, node: ast.ClassDef) -> None:
        self.classes[node.name] = file, node
        named = self._attributes.setdefault(node.name, {})
        for statement in node.body:
            if isinstance(statement, Function):
                self.class_of[id(statement)] = node.name
                for inner in ast.walk(statement):
                    for name, value, part in parts_assigned(inner) if sets_attribute(inner) else ():
                        named.setdefault(name, []).append(Value(file, value, statement, part))
                continue
            for name, value, part in parts_assigned(statement):
                named.setdefault(name, []).append(Value(file, value, None, part))
                if isinstance(statement, ast.Assign) or "ClassVar" in ast.unparse(statement):
                    self.shared.setdefault(node.name, set()).add(name)

    def _find(self, file: SourceFile, node: ast.AST, owner: ast.AST | None) -> None:
        """Note the calls and the set attributes below a node. `owner` is the function around, None at import."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                called = called_by_partial(child) or child
                self._calls.setdefault(self._made_by(called, owner), []).append(Value(file, called, owner))
                if last_name(child.func) == "setattr" and len(child.args) == 3:
                    base, name, given = child.args
                    if isinstance(name, ast.Constant):
                        self._set(str(name.value), Value(file, base, owner), Value(file, given, owner))
            elif isinstance(child, ast.Assign | ast.AnnAssign) and child.value is not None:
                for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                    if isinstance(target, ast.Attribute):
                        self._set(target.attr, Value(file, target.value, owner), Value(file, child.value, owner))
            self._find(file, child, child if isinstance(child, Function) else owner)

    def _made_by(self, call: ast.Call, owner: ast.AST | None) -> str:
        """Return the name of what a call calls; of `cls()` the class, of `super().__init__()` the constructor above."""
        name = last_name(call.func)
        if name == "cls":
            return self.class_of.get(id(owner), "")
        above = isinstance(call.func, ast.Attribute) and called_name(call.func.value) == "super"
        return f"{self.class_of.get(id(owner), '')}.{name}" if above else name

    def _set(self, name: str, base: Value, given: Value) -> None:
        if last_name(base.node) not in ("self", "cls"):
            self._outside.setdefault(name, []).append((base, given))

    def outside(self, name: str) -> list[tuple[Value, Value]]:
        """Return the objects on which code outside of their class sets an attribute, each with what it is given."""
        return self._outside.get(name, [])

    def line(self, class_name: str) -> list[str]:
        """Return a class of the package and all classes of the package that it builds on, each once."""
        if class_name not in self._lines:
            self._lines[class_name] = self._line(class_name)
        return self._lines[class_name]

    def _line(self, class_name: str) -> list[str]:
        line = [class_name] if class_name in self.classes else []
        for one in line:
            _, node = self.classes[one]
            names = (dotted_name(b.value if isinstance(b, ast.Subscript) else b) or "" for b in node.bases)
            lasts = (name.rpartition(".")[2] for name in names)
            line += [last for last in dict.fromkeys(lasts) if last in self.classes and last not in line]
        return line

    def has_method(self, class_name: str, name: str) -> bool:
        """Whether a class of the package, or one of the package that it builds on, defines a method."""
        return self.method(class_name, name) is not None

    def method(self, class_name: str, name: str) -> tuple[SourceFile, Function] | None:
        """Return a method that a class of the package, or one of the package that it builds on, defines."""
        return next(
            (
                (self.classes[one][0], m)
                for one in self.line(class_name)
                for m in self.classes[one][1].body
                if isinstance(m, Function) and m.name == name
            ),
            None,
        )

    def values(self, class_name: str, name: str, *, shared: bool) -> list[Value]:
        """Return what an attribute of a class of the package is given.

        With `shared`, only an attribute that belongs to all objects of the class counts.
        """
        for one in self.line(class_name):
            values = self._attributes[one].get(name, [])
            if shared:
                if values and name in self.shared.get(one, ()):
                    return [value for value in values if value.owner is None]
                continue
            if values or name in _fields(self.classes[one][1]):
                return [*values, *self._given_to_field(class_name, name)]
        return []

    def _given_to_field(self, class_name: str, name: str) -> Iterator[Value]:
        """Yield what a field of a class without a constructor of its own is given, such as one of a data class."""
        if self.has_method(class_name, "__init__"):
            return
        for one in self.classes:
            line = self.line(one)
            if class_name in line:
                fields = list(dict.fromkeys(f for c in reversed(line) for f in _fields(self.classes[c][1])))
                yield from _given(self._calls.get(one, []), fields, name)

    def given(self, constructor: ast.AST, parameter: str) -> Iterator[Value]:
        """Yield what the calls of the package give to a parameter of a constructor; nothing for other functions."""
        of_class = self.class_of.get(id(constructor), "")
        if not (isinstance(constructor, Function) and constructor.name == "__init__" and of_class):
            return
        names = [a.arg for a in named_parameters(constructor.args)][1:]
        for one in self.classes:
            if of_class not in self.line(one):
                continue
            found = self.method(one, "__init__")
            if found is not None and found[1] is constructor:
                yield from _given(self._calls.get(one, []), names, parameter)
            if one != of_class:
                yield from _given(self._calls.get(f"{one}.__init__", []), names, parameter)


_RECORD_MAKERS = frozenset({"namedtuple", "NamedTuple", "make_dataclass"})


def _made_by_call(node: ast.AST) -> ast.ClassDef | None:
    """Return a class with the fields that `namedtuple` or the like is called with; None for other nodes."""
    if not (isinstance(node, ast.Call) and last_name(node.func) in _RECORD_MAKERS and len(node.args) > 1):
        return None
    name, listed = node.args[:2]
    if isinstance(listed, ast.Constant):
        fields = str(listed.value).replace(",", " ").split()
    else:
        parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
        firsts = [part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part for part in parts]
        fields = [str(first.value) for first in firsts if isinstance(first, ast.Constant)]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    typed = [f"    {field}: object" for field in fields if field.isidentifier()]
    source = "\n".join([f"class {name.value}:", *(typed or ["    pass"])])
    try:
        (made,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    return made if isinstance(made, ast.ClassDef) else None


def called_by_partial(call: ast.AST) -> ast.Call | None:
    """Return the call that `partial` prepares; None for other nodes."""
    if not (isinstance(call, ast.Call) and last_name(call.func) == "partial" and call.args):
        return None
    return prepared_call(call)


def prepared_call(call: ast.Call) -> ast.Call:
    """Return the call that a call of `partial` with a function prepares."""
    return ast.Call(call.args[0], call.args[1:], call.keywords)


def _fields(node: ast.ClassDef) -> list[str]:
    """Return the fields of a data class: the names in its body that have a type."""
    return [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]


def _given(calls: Sequence[Value], names: Sequence[str], name: str) -> Iterator[Value]:
    """Yield the arguments that calls give to one of the parameters with these names."""
    at = names.index(name) if name in names else len(names)
    for call in calls:
        assert isinstance(call.node, ast.Call)
        before = call.node.args[: at + 1]
        if at < len(before) and not any(isinstance(argument, ast.Starred) for argument in before):
            yield Value(call.file, before[at], call.owner)
        yield from (Value(call.file, k.value, call.owner) for k in call.node.keywords if k.arg == name)
