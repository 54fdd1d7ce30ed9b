"""Finds the objects of a package that outlive a call: instances of its classes, attributes of classes, iterators.

A method that changes such an object can count its calls. Verifiers keeps one rubric, parser, environment and taskset
for all rollouts, and one task for all rollouts of it where it is loaded; a package keeps what it makes at import. The
module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.syntax import called_name, last_name
from prime_lab_mcp.lab.rewards.deciding_arguments import is_row_change

_KEPT_BASES = ("Rubric", "Parser", "Env", "Environment", "Taskset", "Task", "Judge")
"""Ends of the names of classes of verifiers whose objects outlive a rollout."""
_MUTABLE = frozenset({"list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "bytearray", "count"})
_ITERATORS = frozenset({"map", "filter", "zip", "enumerate", "reversed", "iter", "chain", "islice", "cycle", "count"})


@dataclass(frozen=True, slots=True)
class LastingObjects:
    """What outlives a call in one file."""

    methods: frozenset[int]
    """The ids of the methods whose `self` outlives the call."""
    class_state: dict[int, frozenset[str]]
    """The attributes of its class that a method can change for all objects, by the id of the method."""
    iterators: frozenset[str]
    """Variables of the module that hold an iterator, which every reader uses up."""
    growing: frozenset[str] = frozenset()
    """Variables of the module that hold a table which grows when a key is read, and whose keys or size are read."""
    row_changers: frozenset[str] = frozenset()
    """Names of functions that the package calls with the text of a query that changes rows."""


def lasting_objects(trees: Sequence[ast.Module]) -> list[LastingObjects]:
    """Return what outlives a call in each file of a package. Objects that one file makes belong to all."""
    made = {called_name(node) for tree in trees for node in _at_import(tree) if isinstance(node, ast.Call)}
    changers = frozenset(
        called_name(node)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(map(is_row_change, (*node.args, *(k.value for k in node.keywords))))
    )
    return [_objects_of(tree, made, changers) for tree in trees]


def _objects_of(tree: ast.Module, made: set[str], changers: frozenset[str]) -> LastingObjects:
    methods: set[int] = set()
    class_state: dict[int, frozenset[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        own = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
        bases = [last_name(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases]
        if node.name in made or any(base.endswith(_KEPT_BASES) for base in bases):
            methods |= {id(method) for method in own}
        if shared := frozenset(_mutable_attributes(node)):
            class_state |= {id(method): shared for method in own}
    iterators, growing = frozenset(_iterators(tree)), frozenset(_growing(tree))
    return LastingObjects(frozenset(methods), class_state, iterators, growing, changers)


def _mutable_attributes(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of a class that hold a list, table or the like. Fields with a type are the objects' own."""
    for statement in node.body:
        if isinstance(statement, ast.Assign) and _is_mutable(statement.value):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            shared = "ClassVar" in ast.unparse(statement.annotation) and _is_mutable(statement.value)
            yield from (n.id for n in [statement.target] if shared and isinstance(n, ast.Name))


def _is_mutable(value: ast.expr) -> bool:
    literal = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
    return literal or called_name(value) in _MUTABLE


_SIZES = frozenset({"len", "list", "sorted", "sum", "bool", "iter"})
_VIEWS = frozenset({"keys", "values", "items", "get", "__len__", "__contains__"})


def _growing(tree: ast.Module) -> Iterator[str]:
    """Yield the variables of the module that hold a `defaultdict` of which more is read than single entries."""
    tables = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and called_name(node.value) == "defaultdict"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    read: set[str] = set()
    for node in ast.walk(tree) if tables else ():
        if isinstance(node, ast.Call) and called_name(node) in _SIZES:
            read |= {argument.id for argument in node.args if isinstance(argument, ast.Name)}
        elif isinstance(node, ast.Compare):
            read |= {n.id for n in node.comparators if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Attribute) and node.attr in _VIEWS and isinstance(node.value, ast.Name):
            read.add(node.value.id)
    yield from sorted(tables & read)


def _iterators(tree: ast.Module) -> Iterator[str]:
    generators = {
        function.name
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
        and not function.decorator_list
    }
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = statement.value
            made = called_name(value) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
            if isinstance(value, ast.GeneratorExp) or made in _ITERATORS or made in generators:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run at import: none of the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in (*child.decorator_list, child.args):
                yield from _at_import(part)
        elif not isinstance(child, ast.Lambda):
            yield child
            yield from _at_import(child)
