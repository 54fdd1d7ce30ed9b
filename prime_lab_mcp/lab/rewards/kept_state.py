"""Finds state that outlives a call of a reward: counters, globals, changed defaults and module variables.

A reward with such state can count its calls, and be honest only for the first of them. No code is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_CHANGES = frozenset(
    {"append", "add", "update", "setdefault", "pop", "popleft", "popitem", "extend", "insert", "remove", "discard",
     "clear", "appendleft", "put", "put_nowait", "get_nowait", "send", "__next__", "subtract", "write", "random",
     "randint", "randrange", "getrandbits", "shuffle", "__setitem__", "acquire"}
)  # fmt: skip
_COUNTERS = frozenset({"itertools.count", "itertools.cycle"})
_LOADING = ("load", "__init__", "__post_init__", "model_post_init")


def module_names(tree: ast.Module) -> frozenset[str]:
    """The names that a module binds at its top: variables, classes and functions."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return frozenset(names)


def changed_state(owner: ast.AST | None, nodes: Sequence[ast.AST], outer: frozenset[str]) -> Iterator[tuple[str, int]]:
    """The state that a function changes and a later call may read: its name and the line."""
    if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef) or owner.name.startswith(_LOADING):
        return
    arguments = owner.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    mutable = any(
        not isinstance(d, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp | ast.Tuple) for d in defaults
    )
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    shared = {n for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
    kept = (outer - local - {a.arg for a in given}) | shared | ({a.arg for a in given} if mutable else set())
    kept -= {"self", "trace", "state"}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield ", ".join(node.names), line
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if (name := _root(node)) in kept or (name == "cls"):
                yield name, line
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES and _root(node.func.value) in kept:
                yield _root(node.func.value), line
            elif isinstance(node.func, ast.Name) and node.func.id in ("next", "setattr"):
                yield from ((name, line) for a in node.args[:1] if (name := _root(a)) in kept)


def counters(owner: ast.AST | None, names: set[str]) -> bool:
    """Whether a name that runs at import makes a counter."""
    return owner is None and bool(names & _COUNTERS)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
