"""Finds code that can read what verifiers hands it otherwise in training than in a test of the same arguments.

- The evidence of a test or an evaluation holds the values of the arguments and the order of keys in tables below them,
  not the order in which the arguments follow each other: a config that is written anew may have another one. Code sees
  that order in `**kwargs` of `load_environment` or of a config, in a validator of pydantic that runs before the fields
  are set, and in the fields that a model allows besides its own. An argument that is looked up by its name, or all
  arguments passed on, show no order.
- A config has the id under which the package is loaded: its module in a test, OWNER/NAME@VERSION in a config of a run.
- The program that runs rollouts hands its callbacks to methods of the Env: `on_trace` in training (verifiers 0.4.0,
  v1/serve/server.py), `on_complete` in an evaluation (v1/cli/eval/runner.py), and one task at a time or many (`slots`).
- It rebuilds tasks from data, and runs them by methods of Env, Taskset and Task that verifiers itself carries out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.base.syntax import last_name

ORDER = "in which order its arguments are written"
LOADED_AS = "under which name it is loaded"
RUN_BY = "which program runs its rollouts"
_LOADER = "load_environment"
_EXTRA = frozenset({"model_extra", "__pydantic_extra__"})
_BY_NAME = frozenset({"get", "pop", "setdefault", "update", "__contains__"})
_CHECKS = frozenset({"isinstance", "bool"})


def training_marks(owner: ast.AST | None, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, name, line) of every read in a function, or in code that runs at import (`owner` is None)."""
    yield from ((ORDER, name, line) for name, line in _argument_order(owner, nodes))
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef) and owner.name in _SCHEDULING:
        yield RUN_BY, owner.name, owner.lineno
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from ((RUN_BY, name, line) for name, line in _replaced_methods(node))
        if isinstance(node, ast.Attribute) and node.attr in _FIELDS_SET:
            yield RUN_BY, node.attr, node.lineno
        if isinstance(node, ast.Call) and any(k.arg == "exclude_unset" for k in node.keywords):
            yield RUN_BY, "exclude_unset", node.lineno
        if isinstance(node, ast.Attribute) and node.attr == "id" and last_name(node.value) in _CONFIGS:
            yield LOADED_AS, ast.unparse(node)[:60], node.lineno


_FIELDS_SET = frozenset({"model_fields_set", "__pydantic_fields_set__", "__fields_set__"})
"""Attributes that show which fields were given: of data that training rebuilds from JSON, all of them."""
_SCHEDULING = frozenset({"run_slot", "slots", "on_trace", "on_complete"})
_OF_BASES = {
    "Env": frozenset({"run_episode", "run_slot", "serving", "shared_tools", "slots"}),
    "Taskset": frozenset({"task_type", "_view"}),
    "Task": frozenset({"config_type", "data_type", "defer_scoring", "hash", "hooks", "key", "plugged_judges", "score"}),
    "TaskData": frozenset({"model_validate", "model_validate_json", "model_dump", "model_dump_json"}),
}
"""Methods of verifiers' classes that only the program calls which serves rollouts to the trainer, or that verifiers
itself carries out (0.4.0: v1/serve/server.py, v1/env.py, v1/task.py). An environment needs none of its own."""


def _replaced_methods(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of the methods of `_OF_BASES` that a class replaces."""
    bases = [last_name(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases]
    names = {name for base in bases for end, of in _OF_BASES.items() if base.endswith(end) for name in of}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            made = [statement.name] if statement.name not in _SCHEDULING else []
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            made = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        else:
            continue
        yield from ((f"{node.name}.{name}", statement.lineno) for name in made if name in names)


_CONFIGS = frozenset({"config", "cfg", "conf", "_config"})


def _argument_order(owner: ast.AST | None, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of every read of the order of arguments."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _EXTRA:
            yield node.attr, node.lineno
    if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    given = _tables(owner)
    if not given:
        return
    harmless = {id(name) for node in nodes for name in _shown_no_order(node)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in given and id(node) not in harmless:
            yield f"{owner.name}.{node.id}", node.lineno


def _tables(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters that hold the arguments of an environment as a table."""
    table = function.args.kwarg.arg if function.args.kwarg is not None else ""
    makes_config = function.name == "__init__" and any(_passes_up(node, table) for node in ast.walk(function))
    named = {table} if table and (function.name == _LOADER or makes_config) else set()
    if any(_runs_before(decorator) for decorator in function.decorator_list):
        named |= {p.arg for p in function.args.args if p.arg not in ("cls", "self")}
    return named


def _passes_up(node: ast.AST, table: str) -> bool:
    """Whether a node is `super().__init__(**table)`, with which a config adds to what pydantic does."""
    func = node.func if isinstance(node, ast.Call) else None
    above = isinstance(func, ast.Attribute) and func.attr == "__init__" and isinstance(func.value, ast.Call)
    passed = node.keywords if isinstance(node, ast.Call) else []
    return above and any(k.arg is None and isinstance(k.value, ast.Name) and k.value.id == table for k in passed)


def _runs_before(decorator: ast.expr) -> bool:
    """Whether a decorator makes a validator of pydantic that gets what the caller wrote."""
    call = decorator if isinstance(decorator, ast.Call) else None
    func = call.func if call is not None else decorator
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name == "root_validator":
        return True
    modes = [k.value for k in call.keywords if k.arg == "mode"] if call is not None else []
    after = [m for m in modes if isinstance(m, ast.Constant) and m.value == "after"]
    return name == "model_validator" and len(modes) != len(after)


def _shown_no_order(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions whose order a node does not show: looked up by name, passed on as a whole, or returned."""
    if isinstance(node, ast.Call):
        yield from (k.value for k in node.keywords if k.arg is None and not _is_table(node))
        if isinstance(node.func, ast.Attribute) and node.func.attr in _BY_NAME:
            yield node.func.value
        if isinstance(node.func, ast.Name) and node.func.id in _CHECKS | {"handler"}:
            yield from node.args
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Compare) and all(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        yield from node.comparators
    elif isinstance(node, ast.Return | ast.If) and (value := node.value if isinstance(node, ast.Return) else node.test):
        yield value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def _is_table(call: ast.Call) -> bool:
    """Whether a call makes another table of what it is given, such as `dict(**kwargs)`."""
    return isinstance(call.func, ast.Name) and call.func.id in ("dict", "OrderedDict")
