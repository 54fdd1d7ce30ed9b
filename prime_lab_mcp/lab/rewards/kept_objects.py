"""Finds uses of objects that outlive a call and that the reading cannot tell unchanged between calls.

`lasting_state.py` lists what is known to change an object. No such list is complete, so this module lists what is known
to leave an object as it is, for each kind of object (kept_kinds.py). A use of a variable of a module, of an attribute
that lasts, of a default or of a variable around a function that is on no such list is named. The module reads the
syntax tree and runs no code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prime_lab_mcp.lab.base.syntax import last_name, own_nodes, parameter_names
from prime_lab_mcp.lab.rewards.bindings import bindings_of, parts_assigned
from prime_lab_mcp.lab.rewards.kept_classes import Function, prepared_call
from prime_lab_mcp.lab.rewards.kept_kinds import KeptKinds, Kind, Known, least
from prime_lab_mcp.lab.rewards.lasting_objects import LastingObjects
from prime_lab_mcp.lab.rewards.lasting_state import CHANGES, first_name
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram
from prime_lab_mcp.lab.rewards.unchanging_uses import (
    CHANGE_GIVEN,
    CHANGEABLE,
    CHANGING,
    NO_SETTINGS,
    OF_FUNCTIONS,
    ON_UNKNOWN,
    PARTIALS,
    PATTERN_READS,
    PATTERN_VALUES,
    READERS,
    READING_MODULES,
    SETTING_NAMES,
    SETTINGS,
    TABLE_READS,
    TAKING,
    TEXT_READS,
    WITH_SETTINGS,
)
from prime_lab_mcp.lab.state.source_code import SourceFile

_LOADING = ("load", "__init__", "__post_init__", "model_post_init")
_DEEPEST = 3
_Env = Mapping[str, Known | None]


class KeptObjects:
    """Finds doubtful uses of what the files of a package keep between calls.

    `lasting` are the lasting objects of each file by its path, `ending` the inner functions that end with the
    call that made them (`ending_functions`).
    """

    def __init__(
        self,
        program: RewardProgram,
        files: Sequence[SourceFile],
        lasting: Mapping[str, LastingObjects],
        ending: frozenset[ast.AST],
    ) -> None:
        read = [file for file in files if file.tree is not None]
        self._kinds = KeptKinds(program, read)
        self._lasting, self._ending = lasting, ending
        self._around: dict[int, list[ast.AST]] = {}
        """Maps the id of an inner function to the functions around it, the outermost first."""
        for file in read:
            assert file.tree is not None
            self._find_around(file.tree, [])

    def _find_around(self, node: ast.AST, outer: list[ast.AST]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self._around[id(child)] = outer
                self._find_around(child, [*outer, child])
            else:
                self._find_around(child, [] if isinstance(child, ast.ClassDef) else outer)

    def uses(self, file: SourceFile, owner: ast.AST | None, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
        """Yield (name, line) of every doubtful use in a function; `owner` is None for code at import."""
        if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _Use(self._kinds, self._lasting, file, None).of_made(nodes, {})
            return
        around = self._around.get(id(owner), [])
        use = _Use(self._kinds, self._lasting, file, (around or [owner])[0])
        env: dict[str, Known | None] = {}
        for outer in around:
            env |= self._variables_around(file, outer, owner)
        if owner.name.startswith(_LOADING) and owner.name != "load":
            # The function runs once, but what it makes and returns runs in every call.
            env |= self._variables_around(file, owner, None)
            yield from use.of_made(ast.walk(owner), env)
            return
        yield from use.of_function(owner, env)

    def _variables_around(self, file: SourceFile, outer: ast.AST, inner: Function | None) -> dict[str, Known | None]:
        """Map the variables of an outer function to what is known of them, if they outlive a call of the inner one."""
        own = {b[0]: b for n in own_nodes(outer) for b in parts_assigned(n)}
        names = dict.fromkeys([*parameter_names(outer), *own])
        outlives = isinstance(outer, Function) and (
            outer.name.startswith(_LOADING)
            or (inner is not None and inner not in self._ending and _hands(outer, inner))
        )
        if not outlives:
            return dict.fromkeys(names)
        return {n: self._kinds.of(file, ast.Name(n, ast.Load()), outer) if n in own else None for n in names}


def _hands(outer: ast.AST, inner: Function) -> bool:
    """Whether a function returns an inner function, or puts it where it stays."""
    called = {id(n.func) for n in ast.walk(outer) if isinstance(n, ast.Call)}
    return any(
        isinstance(n, ast.Name) and n.id == inner.name and id(n) not in called
        for statement in ast.walk(outer)
        if isinstance(statement, ast.Return)
        for n in ast.walk(statement)
    )


class _Use:
    """Follows what is kept through one function."""

    def __init__(
        self, kinds: KeptKinds, lasting: Mapping[str, LastingObjects], file: SourceFile, owner: ast.AST | None
    ) -> None:
        self._kinds, self._every, self._lasting, self._file, self._owner = (
            kinds,
            lasting,
            lasting[file.path],
            file,
            owner,
        )
        self._parents: dict[int, ast.AST] = {}
        self._class = ""
        self._self: Known | None = None
        self._callables: dict[str, list[ast.AST]] = {}
        self._catches = False
        self._depth = 0

    def of_function(self, function: ast.AST, outer: _Env) -> Iterator[tuple[str, int]]:
        """Yield (name, line) of the doubtful uses in a function, and in what is inside of it."""
        for node in ast.walk(function):
            self._parents |= {id(child): node for child in ast.iter_child_nodes(node)}
            self._catches = self._catches or last_name(node) == "catch_warnings"
        if name := self._kinds.of_classes.class_of.get(id(function), ""):
            self._class = name
            lasts = id(function) in self._lasting.methods
            self._self = Known(self._kinds.of_class(name)) if lasts else None
        env = self._env(function, outer)
        body = (
            function.body
            if isinstance(function, Function)
            else [function.body]
            if isinstance(function, ast.Lambda)
            else []
        )
        for statement in body:
            yield from self._visit(statement, env)

    def of_made(self, nodes: Iterable[ast.AST], outer: _Env) -> Iterator[tuple[str, int]]:
        """Yield (name, line) of the doubtful uses in the functions that code makes with `lambda` and `partial`."""
        for node in nodes:
            if isinstance(node, ast.Lambda):
                yield from self.of_function(node, outer)
            elif isinstance(node, ast.Call) and self._is_partial(node):
                for given in (*node.args[1:], *(k.value for k in node.keywords)):
                    known = self.kept(given, outer) or self._kinds.of(self._file, given, self._owner)
                    changes = known.kind in (Kind.UNKNOWN, Kind.FOREIGN, Kind.CONTAINER)
                    if changes and self._partial_doubtful(node, given, known):
                        yield ast.unparse(given)[:60], node.lineno

    def _is_partial(self, call: ast.Call) -> bool:
        return self._kinds.full_name(self._file, call.func) in PARTIALS and bool(call.args)

    def _partial_doubtful(self, call: ast.Call, given: ast.AST, known: Known) -> bool:
        """Whether the function of a `partial` uses a parameter doubtfully that is given a kept object there."""
        keyword = next((k for k in call.keywords if k.value is given), None)
        return self._given_doubtful(last_name(call.args[0]), prepared_call(call), given, keyword, known)

    def _env(self, function: ast.AST, outer: _Env) -> dict[str, Known | None]:
        """Map the names of a function to what is known of the kept objects that they stand for."""
        own = list(own_nodes(function))
        within = {id(n) for c in own if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
        stores = {
            n.id for n in own if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and id(n) not in within
        }
        stores |= {n.name for n in own if isinstance(n, Function | ast.ClassDef)}
        stores |= {n.name for n in own if isinstance(n, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and n.name}
        stores |= {
            (a.asname or a.name).partition(".")[0]
            for n in own
            if isinstance(n, ast.Import | ast.ImportFrom)
            for a in n.names
        }
        stores -= {name for n in own if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
        env: dict[str, Known | None] = {**outer, **dict.fromkeys([*parameter_names(function), *stores])}
        if isinstance(function, Function | ast.Lambda):
            for name, default in bindings_of(function.args):
                known = self.kept(default, outer) or self._kinds.of(self._file, default, None)
                replaced = known.kind is Kind.CONTAINER and name in stores  # such as a copy of what was given
                follows = known.kind in (Kind.UNKNOWN, Kind.FOREIGN, Kind.CONTAINER) and not replaced
                env[name] = known if follows else None
        bindings = [b for n in own if not isinstance(n, ast.comprehension) for b in parts_assigned(n) if b[0] in stores]
        for _ in range(2):  # an alias of an alias
            for name, value, part in bindings:
                if (held := self.kept(value, env)) is not None:
                    held = held.of_part if part else held
                    before = env[name]
                    env[name] = held if before is None else least([before, held])
        for name, value, _ in bindings:
            self._callables.setdefault(name, []).append(value)
        return env

    def _visit(self, node: ast.AST, env: _Env) -> Iterator[tuple[str, int]]:
        if isinstance(node, Function | ast.Lambda):
            inner = self._env(node, env)
            for child in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
                yield from self._visit(child, env)
            for statement in node.body if isinstance(node.body, list) else [node.body]:
                yield from self._visit(statement, inner)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            env = dict(env)
            for loop in node.generators:
                over = self.kept(loop.iter, env)
                for name, _, _ in parts_assigned(loop):
                    env[name] = over.of_part if over is not None else None
        if isinstance(node, ast.expr):
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Name | ast.Attribute) and (setting := self._setting(node)):
                yield setting, line
            known = self.kept(node, env)
            if known is not None and self._doubtful(node, known, env):
                yield ast.unparse(node)[:60], line
        for below in ast.iter_child_nodes(node):
            yield from self._visit(below, env)

    def kept(self, node: ast.AST, env: _Env) -> Known | None:
        """Return what is known of the kept object that an expression stands for; None for all other expressions."""
        match node:
            case ast.Name(id=name):
                if name in ("self", "cls") and env.get(name) is None:
                    return self._self
                return env[name] if name in env else self._kinds.at_module_level(self._file, node)
            case ast.Attribute(value=value, attr=attr):
                return self._kept_attribute(node, value, attr, env)
            case ast.Subscript(value=value):
                held = self.kept(value, env)
                return held.of_part if held is not None else None
            case ast.IfExp():
                parts = [node.body, node.orelse]
            case ast.BoolOp():
                parts = node.values
            case ast.NamedExpr(value=value) | ast.Starred(value=value) | ast.Await(value=value):
                return self.kept(value, env)
            case ast.Call():
                return self._kept_result(node, env)
            case _:
                return None
        found = [known for part in parts if (known := self.kept(part, env)) is not None]
        return least(found) if found else None

    def _kept_attribute(self, node: ast.AST, value: ast.AST, attr: str, env: _Env) -> Known | None:
        root = value
        while isinstance(root, ast.Attribute):
            root = root.value
        if not (isinstance(root, ast.Name) and root.id in env):
            if (known := self._kinds.at_module_level(self._file, node)) is not None:
                return known
            if isinstance(value, ast.Name) and value.id in self._kinds.classes:
                return self._kinds.attribute(value.id, attr, shared=False)
        of_class = ast.unparse(value) in ("cls", "type(self)", "self.__class__")
        if self._class and (of_class or (isinstance(value, ast.Name) and value.id == "self")):
            return self._kinds.attribute(self._class, attr, shared=self._self is None)
        held = self.kept(value, env)
        if held is None:
            return None
        if held.made and (known := self._kinds.attribute(held.made, attr, shared=False)) is not None:
            return known
        if isinstance(node, ast.Attribute) and (known := self._kinds.set_outside(node)) is not None:
            return known
        if held.kind in (Kind.UNKNOWN, Kind.PLAIN, Kind.LOCK):
            return None
        return (
            self._kinds.read(held, attr)
            if held.kind in (Kind.CONTAINER, Kind.PATTERN) and attr in TABLE_READS
            else None
        )

    def _kept_result(self, call: ast.Call, env: _Env) -> Known | None:
        """Return what is known of a kept object that a call returns: a part of one, or what the package keeps."""
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute):
            base = call.func.value
            held = self.kept(base, env)
            if held is not None and held.kind is Kind.CONTAINER:
                parts = name in ("get", "setdefault")
                return held.of_part if parts else held if name in ("values", "items", "keys") else None
            own = self._self is not None and isinstance(base, ast.Name) and base.id == "self"
            made = self._class if own else held.made if held is not None else ""
            return self._kinds.returned_by(made, name) if made else None
        if name == "getattr" and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
            return self.kept(ast.Attribute(call.args[0], str(call.args[1].value), ast.Load()), env)
        if isinstance(call.func, ast.Name) and name not in env and self._kinds.keeps(name):
            known = self._kinds.returned(name)
            return None if known.kind is Kind.PLAIN else known
        return None

    def _doubtful(self, node: ast.expr, known: Known, env: _Env) -> bool:
        """Whether a use of a kept object may change that object, or have another result in a later call."""
        kind, parent = known.kind, self._parents.get(id(node))
        if isinstance(parent, ast.Attribute):
            return self._attribute_doubtful(node, parent, known)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not self._near(node):
            return isinstance(node, ast.Attribute | ast.Subscript)
        if isinstance(parent, ast.Subscript) and parent.value is node and not isinstance(parent.ctx, ast.Load):
            return not self._near(node)
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return False
        if kind is Kind.UNKNOWN:
            return self._unknown_doubtful(node, parent)
        if kind not in (Kind.CONTAINER, Kind.FOREIGN):
            return False
        call = self._parents.get(id(parent)) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node:
            return False
        return self._argument_doubtful(node, call, parent if isinstance(parent, ast.keyword) else None, known, env)

    def _attribute_doubtful(self, node: ast.expr, read: ast.Attribute, known: Known) -> bool:
        kind = known.kind
        above = self._parents.get(id(read))
        called = isinstance(above, ast.Call) and above.func is read
        attr = read.attr
        if not isinstance(read.ctx, ast.Load):
            return not self._near(node) and kind is not Kind.OWN
        if kind in (Kind.CONTAINER, Kind.UNKNOWN) and self._near(node) and attr in CHANGES:
            return False  # `lasting_state.py` names that.
        if known.made in self._kinds.classes:
            own = self._kinds.of_classes.has_method(known.made, attr)
        else:
            own = attr in self._kinds.functions and attr not in CHANGING
        match kind:
            case Kind.CONTAINER:
                return called and attr not in TABLE_READS | TEXT_READS | PATTERN_READS and not own
            case Kind.PATTERN:
                return attr not in PATTERN_READS | PATTERN_VALUES | TEXT_READS
            case Kind.FUNCTION:
                return called and not own and attr not in OF_FUNCTIONS | TEXT_READS
            case Kind.FOREIGN:
                return called and not own and attr not in TABLE_READS | TEXT_READS
            case Kind.LOCK:
                return attr not in ("acquire", "release", "__aenter__", "__enter__")
            case Kind.UNKNOWN:
                return not own
            case _:
                return False

    def _near(self, node: ast.AST) -> bool:
        """Whether `lasting_state.py` follows the variable with which an expression begins."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name):
            return ast.unparse(node) == "type(self)"
        if any(
            not isinstance(v, ast.Call) and self._near(v) for v in self._callables.get(node.id, ()) if v is not node
        ):
            return True  # an alias
        assert self._file.tree is not None
        return node.id in ("self", "cls") or any(
            name == node.id for statement in self._file.tree.body for name, _, _ in parts_assigned(statement)
        )

    def _unknown_doubtful(self, node: ast.expr, parent: ast.AST | None) -> bool:
        if isinstance(node, ast.Name) and node.id in self._lasting.iterators:
            return False  # `lasting_state.py` names that.
        if isinstance(parent, ast.Call):
            return parent.func is node or last_name(parent.func) not in ON_UNKNOWN
        if isinstance(parent, ast.Compare):
            return any(isinstance(op, ast.In | ast.NotIn) for op in parent.ops) and node is not parent.left
        return isinstance(
            parent,
            ast.keyword | ast.For | ast.AsyncFor | ast.comprehension | ast.Starred | ast.Await | ast.withitem
            | ast.Subscript | ast.YieldFrom | ast.BinOp | ast.List | ast.Tuple | ast.Dict,
        )  # fmt: skip

    def _argument_doubtful(
        self, node: ast.expr, call: ast.Call, keyword: ast.keyword | None, known: Known, env: _Env
    ) -> bool:
        """Whether a call may change a kept object that it is given."""
        name = last_name(call.func)
        first = bool(call.args) and call.args[0] is node
        full = self._kinds.full_name(self._file, call.func)
        if full in PARTIALS and not first:
            return self._partial_doubtful(call, node, known)
        if isinstance(call.func, ast.Attribute):
            if isinstance(call.func.value, ast.Name) and call.func.value.id in CHANGEABLE and first:
                return name not in TABLE_READS | TEXT_READS and not (self._near(node) and name in CHANGES)
            if full and not self._of_package(full):
                return self._library_doubtful(full, keyword)
            return name not in self._kinds.functions and name not in TAKING | TABLE_READS | TEXT_READS
        if not isinstance(call.func, ast.Name):
            return True
        if name in env and name not in self._kinds.functions:
            return any(not isinstance(v, ast.Name | ast.Lambda | ast.Subscript) for v in self._callables.get(name, ()))
        if name in self._kinds.classes or name in self._kinds.functions:
            return self._given_doubtful(name, call, node, keyword, known)
        if full:
            return self._library_doubtful(full, keyword)
        if (called := self._kinds.at_module_level(self._file, call.func)) is not None:
            return called.kind is Kind.UNKNOWN
        if name == "getattr":
            read = call.args[1] if first and len(call.args) > 1 else None
            return isinstance(read, ast.Constant) and read.value not in TABLE_READS | TEXT_READS
        return name not in READERS and name not in ("next", "setattr", "delattr")

    def _of_package(self, full: str) -> bool:
        return full.rpartition(".")[2] in self._kinds.functions or full.rpartition(".")[2] in self._kinds.classes

    def _library_doubtful(self, full: str, keyword: ast.keyword | None) -> bool:
        if keyword is not None and keyword.arg == "out":
            return True
        last = full.rpartition(".")[2]
        return not full.startswith(READING_MODULES) or last in CHANGE_GIVEN or "scanner" in last

    def _given_doubtful(
        self, name: str, call: ast.Call, node: ast.AST, keyword: ast.keyword | None, known: Known
    ) -> bool:
        """Whether a function of the package uses a parameter doubtfully that is given a kept object."""
        if self._depth >= _DEEPEST:
            return False
        for file, function in self._kinds.functions.get(name, ()):
            names = parameter_names(function)
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            at = call.args.index(node) if node in call.args else -1
            parameter = keyword.arg if keyword is not None else names[at] if 0 <= at < len(names) else None
            if parameter is None or parameter not in names:
                continue
            inner = _Use(self._kinds, self._every, file, function)
            inner._depth = self._depth + 1
            if inner.changes(function, parameter, known):
                return True
        return False

    def changes(self, function: Function, parameter: str, known: Known) -> bool:
        """Whether a function uses a parameter doubtfully that is a kept object."""
        for node in ast.walk(function):
            self._parents |= {id(child): node for child in ast.iter_child_nodes(node)}
        env = {**self._env(function, {}), parameter: known}
        return any(
            self._doubtful(node, held, env)
            for node in own_nodes(function)
            if isinstance(node, ast.expr)
            and first_name(node) == parameter
            and (held := self.kept(node, env)) is not None
        )

    def _setting(self, node: ast.Name | ast.Attribute) -> str:
        """Return the function of a library with which code sets something for all later calls; empty for none."""
        full = self._kinds.full_name(self._file, node)
        if not full and isinstance(node, ast.Name):
            values = self._kinds.variable(self._file, node)
            full = next((f for v in values if (f := self._kinds.full_name(v.file, v.node))), "")
        top, _, rest = full.partition(".")
        last = rest.rpartition(".")[2]
        if full in SETTING_NAMES and not (top == "warnings" and self._catches):
            return full
        sets = top in WITH_SETTINGS and last.startswith(SETTINGS) and last not in NO_SETTINGS
        if top == "warnings" and self._catches:
            return ""
        return full if sets and not last.startswith("setup") else ""
