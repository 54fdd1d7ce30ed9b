"""Finds state in a reward's code that lasts longer than one call: counters, globals, changed defaults and module
variables.

A reward with such state can count its calls, and score honestly only in the first of them, when it is tested. The
module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from prime_lab_mcp.lab.base.syntax import called_name, defaults_of, last_name, named_parameters
from prime_lab_mcp.lab.rewards.bindings import bindings_of, captures_of
from prime_lab_mcp.lab.rewards.deciding_arguments import changes_rows
from prime_lab_mcp.lab.rewards.lasting_objects import LastingObjects

CHANGES = frozenset(
    {"append", "add", "update", "setdefault", "pop", "popleft", "popitem", "extend", "insert", "remove", "discard",
     "clear", "appendleft", "put", "put_nowait", "get_nowait", "send", "__next__", "subtract", "write", "random",
     "randint", "randrange", "getrandbits", "shuffle", "__setitem__", "acquire", "uniform", "gauss", "choice",
     "choices", "sample", "read", "readline", "readinto", "read1", "seek", "rotate", "reverse", "move_to_end",
     "extendleft", "__delitem__", "__iadd__", "intersection_update", "difference_update",
     "symmetric_difference_update"}
)  # fmt: skip
"""Methods that change their object, or whose result depends on earlier calls."""
_PASSED_ON = frozenset(
    {"append", "add", "update", "setdefault", "popitem", "extend", "insert", "discard", "appendleft", "put_nowait",
     "__next__", "__setitem__", "rotate", "put", "send", "remove", "clear", "pop", "popleft"}
)  # fmt: skip
"""Methods of `CHANGES` that change their object even if they are only passed on, as `map(SEEN.append, ...)` does."""
_COUNTERS = frozenset({"itertools.count", "itertools.cycle", "iter", "io.BytesIO", "io.StringIO", "threading.local"})
_HANDED = frozenset(
    {"heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right", "iadd",
     "isub", "imul", "ior", "iconcat", "islice", "setitem", "delitem"}
)  # fmt: skip
"""Functions that change their first argument."""
_OF_ENVIRONMENT = frozenset({"run", "finalize", "env_response", "setup_state"})
"""Methods with which one environment plays its rollouts, in v1 and in v0."""
_LOADING = ("load", "__init__", "__post_init__", "model_post_init")
"""Beginnings of the names of functions that run while the environment is loaded. They may set state."""


def module_names(tree: ast.Module) -> frozenset[str]:
    """Return the names of the module-level variables, classes and functions."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return frozenset(names)


_CALLED_MEANWHILE = frozenset({"set_progress_handler", "set_authorizer", "set_trace_callback", "create_function"})
_CALLERS = frozenset({"sorted", "min", "max", "sum", "list", "all", "any"})
"""Methods of a database's connection, and functions, that call what they are given while the calling function runs."""


def ending_functions(tree: ast.Module) -> frozenset[ast.AST]:
    """Return the inner functions that end with the call of the function around them, so that its variables do too.

    They are called there, or given to a function that calls them there. Any other mention may keep them: a `return`,
    an assignment, a decorator. A connection that calls them must be a variable of that function too.
    """
    found: set[ast.AST] = set()
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inner = [
            n for n in outer.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and not n.decorator_list
        ]
        if not inner:
            continue
        nodes = [n for statement in outer.body for n in ast.walk(statement)]
        kept = {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
        own = {
            n.targets[0].id
            for n in outer.body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Call)
        } - kept
        harmless = {id(part) for n in nodes if isinstance(n, ast.Call) for part in _called_meanwhile(n, own)}
        mentioned = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in harmless}
        found |= {function for function in inner if function.name not in mentioned | kept}
    return frozenset(found)


def _called_meanwhile(call: ast.Call, own: set[str]) -> Iterator[ast.AST]:
    """Yield the expressions of a call that the call itself calls."""
    yield call.func
    method = (
        isinstance(call.func, ast.Attribute) and call.func.attr in _CALLED_MEANWHILE and first_name(call.func) in own
    )
    if method or (isinstance(call.func, ast.Name) and call.func.id in _CALLERS):
        yield from call.args
        yield from (keyword.value for keyword in call.keywords)


def changed_state(
    owner: ast.AST | None,
    nodes: Sequence[ast.AST],
    outer: frozenset[str],
    ending: frozenset[ast.AST] = frozenset(),
    keepers: KeepingFunctions | None = None,
    objects: LastingObjects | None = None,
    *,
    in_reward: bool = False,
) -> Iterator[tuple[str, int]]:
    """Yield (name, line) for state that a function changes and that a later call may read.

    `owner` is the function, `nodes` are its syntax nodes, `outer` are the module-level names, `ending` are the
    functions of `ending_functions`, `keepers` those of `keeping_functions`, and `objects` what outlives a call.
    `in_reward` says that a reward runs the function.
    """
    if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _changed_by_lambdas(nodes, outer)
        return
    keeps_self = objects is not None and id(owner) in objects.methods
    # Training rebuilds tasks without `Taskset.load`, so that what `load` leaves in a module is missing there.
    loads = owner.name.startswith(_LOADING) and owner.name != "load" and not in_reward
    if loads and (keeps_self or not owner.name.startswith("__")):
        return
    arguments = owner.args
    given = named_parameters(arguments)
    mutable = any(
        not isinstance(default, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp | ast.Tuple)
        for _, default in defaults_of(arguments)
    )
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    within = {id(n) for f in (owner, *nodes) if f in ending for n in ast.walk(f) if isinstance(n, ast.Nonlocal)}
    shared = {
        n
        for node in nodes
        if isinstance(node, ast.Global | ast.Nonlocal) and id(node) not in within
        for n in node.names
    }
    lasting = (outer - local - {a.arg for a in given}) | shared | ({a.arg for a in given} if mutable else set())
    lasting |= {a.arg for a, d in defaults_of(arguments) if isinstance(d, ast.Name) and d.id in outer} - local
    lasting -= {"self", "trace", "state"}
    if owner.name in _OF_ENVIRONMENT or (keeps_self and not owner.name.startswith(_LOADING)):
        lasting |= {"self"}  # One environment object plays all rollouts, so its state lasts.
    makers = keepers.makers if keepers is not None else frozenset()
    named = lasting & {n.id for n in nodes if isinstance(n, ast.Name)}
    lasting |= _aliases(nodes, named, makers) - {"self"}
    names = {a.arg for a in given}
    of_class = objects.class_state.get(id(owner), frozenset()) if objects is not None else frozenset()
    iterators = objects.iterators - local - names if objects is not None else frozenset()
    growing = objects.growing - local - names if objects is not None else frozenset()
    # A query that the caller hands over is an answer's, unless the package hands over one that changes rows.
    asked = frozenset() if objects is not None and owner.name in objects.row_changers else frozenset(names)
    called_methods = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and node.id in iterators and isinstance(node.ctx, ast.Load):
            yield node.id, line
        if isinstance(node, ast.Subscript) and first_name(node.value) in growing and isinstance(node.ctx, ast.Load):
            yield first_name(node.value), line
        if of_class and (changed := _changed_of_class(node, of_class)):
            yield changed, line
        passed_on = isinstance(node, ast.Attribute) and node.attr in _PASSED_ON and id(node) not in called_methods
        if passed_on and isinstance(node, ast.Attribute) and (name := first_name(node.value)) in lasting:
            yield name, line
        if (
            isinstance(node, ast.Call)
            and (rows := changes_rows(node, asked)) is not None
            and first_name(rows) in lasting
        ):
            yield first_name(rows), line
        if isinstance(node, ast.Global | ast.Nonlocal):
            if id(node) in within:
                continue
            yield ", ".join(node.names), line
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            name = first_name(node) or _made_by(node, makers)
            if owner.name == "load" and ast.unparse(node).startswith("self.config."):
                yield "self.config", line
            if name in lasting or name in makers or name == "cls" or _is_of_class(node.value):
                yield name or "the class", line
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                changed = first_name(node.func.value) or _made_by(node.func.value, makers)
                if changed in lasting or changed in makers:
                    yield changed, line
                    continue
            if keepers is not None:
                yield from ((name, line) for name in keepers.changed_by(node, lasting))
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_type = (
                isinstance(node.func, ast.Attribute) and first_name(node.func.value) in _TYPES and called in CHANGES
            )
            if called in ("next", "setattr", "delattr") or called in _HANDED or of_type:
                yield from ((name, line) for a in node.args[:1] if (name := first_name(a)) in lasting)
                yield from (("the class", line) for a in node.args[:1] if called == "setattr" and _is_of_class(a))


_TYPES = frozenset({"list", "dict", "set", "deque", "collections", "bytearray", "Counter", "OrderedDict", "object"})


def _changed_by_lambdas(nodes: Sequence[ast.AST], outer: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield the module variables that functions without a name change, which code at import makes."""
    for node in (n for function in nodes if isinstance(function, ast.Lambda) for n in ast.walk(function.body)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSED_ON:
            name = first_name(node.func.value)
            yield from ((changed, node.lineno) for changed in (name,) if changed in outer)


def _changed_of_class(node: ast.AST, names: frozenset[str]) -> str:
    """Return the attribute of the class that a node changes through `self`; empty for other nodes."""
    changed: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        changed = node.func.value
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        changed = node.value
    while isinstance(changed, ast.Subscript):
        changed = changed.value
    own = isinstance(changed, ast.Attribute) and isinstance(changed.value, ast.Name) and changed.value.id == "self"
    return changed.attr if own and isinstance(changed, ast.Attribute) and changed.attr in names else ""


@dataclass(frozen=True, slots=True)
class KeepingFunctions:
    """Functions of a file through which another function reaches state that lasts."""

    makers: frozenset[str]
    """Functions whose result lasts: cached ones, and those that return a module variable or part of one."""
    changers: Mapping[str, frozenset[int]]
    """Functions that change what they are given, with the positions of these parameters in a call."""
    named: Mapping[str, frozenset[str]]
    """The same functions with the names of these parameters."""

    def changed_by(self, call: ast.Call, lasting: AbstractSet[str]) -> Iterator[str]:
        """Yield the lasting variables that a call gives to a function that changes them."""
        positions = self.changers.get(_called(call), frozenset())
        yield from (
            name for at in sorted(positions) for a in call.args[at : at + 1] if (name := first_name(a)) in lasting
        )
        named = self.named.get(_called(call), frozenset())
        yield from (name for k in call.keywords if k.arg in named and (name := first_name(k.value)) in lasting)


def keeping_functions(tree: ast.Module) -> KeepingFunctions:
    """Return the functions of a file whose result lasts, and those that change what they are given."""
    variables = frozenset(
        n.id
        for s in tree.body
        if isinstance(s, ast.Assign | ast.AnnAssign)
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        for n in ast.walk(t)
        if isinstance(n, ast.Name)
    )
    makers: set[str] = set()
    changers: dict[str, frozenset[int]] = {}
    named: dict[str, frozenset[str]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = list(ast.walk(function))
        local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        kept = variables - local | _aliases(nodes, set(variables - local), frozenset())
        returned = {first_name(n.value) for n in nodes if isinstance(n, ast.Return) and n.value is not None}
        if any((called_name(d) or last_name(d)) in _CACHES for d in function.decorator_list) or returned & kept:
            makers.add(function.name)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        changed = {name for n in nodes for name in _changed_names(n)} - local
        changed -= {"trace", "state", "self", "cls"}
        at = {number for number, name in enumerate(names) if name in changed}
        if function.args.vararg is not None and function.args.vararg.arg in changed:
            at |= set(range(len(names), len(names) + _MOST_ARGUMENTS))
        if at:
            changers[function.name] = frozenset(at)
        if by_name := frozenset({*names, *(a.arg for a in function.args.kwonlyargs)} & changed):
            named[function.name] = by_name
    return KeepingFunctions(frozenset(makers), changers, named)


_MOST_ARGUMENTS = 9


_CACHES = frozenset({"cache", "lru_cache", "cached", "cachedmethod", "cached_property", "memoize"})


def _changed_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        yield first_name(node.func.value)
    elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        yield first_name(node)


def _aliases(nodes: Sequence[ast.AST], lasting: AbstractSet[str], makers: frozenset[str]) -> set[str]:
    """Return the variables to which a lasting object, or a part of one, is assigned."""
    pairs = [pair for node in nodes for pair in bindings_of(node)]
    pairs += [pair for node in nodes if isinstance(node, ast.Match) for pair in captures_of(node)]
    found: set[str] = set()
    for _ in range(3):  # an alias of an alias of an alias
        found |= {
            name
            for name, value in pairs
            for part in _choices(value)
            if first_name(part) in lasting | found or _made_by(part, makers)
        }
    return found


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions of which an expression is one, and for `table.get(key, default)` the table and default."""
    if isinstance(node, ast.IfExp):
        yield from (*_choices(node.body), *_choices(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (part for value in node.values for part in _choices(value))
    elif isinstance(node, ast.NamedExpr | ast.Starred):
        yield from _choices(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARTS:
        yield from (node.func.value, *node.args[1:])
    elif isinstance(node, ast.Call) and _called(node) in _RETURNS_IT:
        yield from node.args
    else:
        yield node


_RETURNS_IT = frozenset({"nullcontext", "cast", "closing"})
"""Functions that return, or hand to a `with`, what they are given."""
_PARTS = frozenset({"get", "setdefault", "values", "items"})
"""Methods that return parts of their object."""


def _made_by(node: ast.AST, makers: frozenset[str]) -> str:
    """Return the function whose lasting result an expression is, or is a part of; empty for other expressions."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    called = _called(node) if isinstance(node, ast.Call) else ""
    return called if called in makers else ""


def _called(call: ast.Call) -> str:
    """Return the last name of what is called, or of what returned it, as in `box()()`."""
    return called_name(call) or called_name(call.func)


def _is_of_class(node: ast.AST) -> bool:
    """Whether an expression is the class of an object: `type(self)` or `self.__class__`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def counters(owner: ast.AST | None, names: set[str]) -> bool:
    """Whether code outside of functions, which runs at import, creates a counter. `owner` is None for such code."""
    return owner is None and bool(names & _COUNTERS)


def first_name(node: ast.AST) -> str:
    """Return the first name of an expression such as `name.attribute[key]`; empty if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
