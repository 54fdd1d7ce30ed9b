"""Resolves names in source code, including aliases, and finds attributes that read the reward's surroundings.

Surroundings are everything besides the task and the completion: files, the network, processes, timers, the interpreter.
outside_kinds.py says which full names read them. The module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prime_lab_mcp.lab.base.syntax import called_name
from prime_lab_mcp.lab.rewards.bindings import bindings_of
from prime_lab_mcp.lab.rewards.known_modules import may_be_part
from prime_lab_mcp.lab.rewards.outside_kinds import (
    FILES,
    INTERPRETER,
    LOOKUP,
    MACHINE,
    MODULES,
    NETWORK,
    PARTLY_KNOWN,
    PROCESSES,
    STATE,
    TIMERS,
    is_known,
    is_known_module,
    is_listed_module,
)
from prime_lab_mcp.lab.rewards.own_place import OwnPlaces
from prime_lab_mcp.lab.rewards.rollout_reads import RolloutNames, follow_rollouts
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, module_of
from prime_lab_mcp.lab.state.source_code import SourceFile

_PUBLIC = frozenset({"abc", "ast", "collections", "enum", "functools", "os", "re", "string", "sys", "typing"})
"""Modules of the standard library whose private names are harmless, or are judged one by one."""
_LOGGER = frozenset(
    {"handlers", "hasHandlers", "getEffectiveLevel", "isEnabledFor", "level", "propagate", "disabled", "manager",
     "parent", "filters", "root"}
)  # fmt: skip
"""Attributes of a logger that show how the process logs."""
_ATTRIBUTES = {
    "iterdir": FILES, "rglob": FILES, "read_text": FILES, "read_bytes": FILES, "exists": FILES, "is_file": FILES,
    "is_dir": FILES, "is_char_device": FILES, "is_block_device": FILES, "is_fifo": FILES, "is_junction": FILES,
    "is_mount": FILES, "is_socket": FILES, "lstat": FILES, "stat": FILES, "open": FILES,
    "glob": FILES, "is_symlink": FILES, "readlink": FILES, "samefile": FILES, "owner": FILES,
    "get_coro": INTERPRETER, "get_stack": INTERPRETER, "findCaller": INTERPRETER, "isatty": INTERPRETER,
    "fileno": INTERPRETER, "loggerDict": INTERPRETER, "FileHandler": FILES, "getnode": MACHINE,
    "tb_frame": INTERPRETER, "f_back": INTERPRETER, "f_globals": INTERPRETER, "f_builtins": INTERPRETER,
    "gi_frame": INTERPRETER, "cr_frame": INTERPRETER, "cache_info": STATE,
    "from_pretrained": FILES, "load_from_disk": FILES, "hf_hub_download": NETWORK, "snapshot_download": NETWORK,
    "create_connection": NETWORK, "create_unix_connection": NETWORK, "create_datagram_endpoint": NETWORK,
    "create_server": NETWORK, "sock_connect": NETWORK, "getaddrinfo": NETWORK, "getnameinfo": NETWORK,
    "open_connection": NETWORK, "open_unix_connection": NETWORK, "start_server": NETWORK,
    "create_subprocess_exec": PROCESSES, "create_subprocess_shell": PROCESSES, "subprocess_exec": PROCESSES,
    "subprocess_shell": PROCESSES,
    "read_file": FILES, "from_file": FILES,
    "format_dict": TIMERS, "seconds_since_start": TIMERS, "get_time": TIMERS, "elapsed": TIMERS,
    "start_t": TIMERS, "last_print_t": TIMERS, "get_loop": TIMERS, "_get_loop": TIMERS, "_max_workers": MACHINE,
    "__globals__": LOOKUP, "__subclasses__": LOOKUP, "__loader__": LOOKUP, "__builtins__": LOOKUP,
}  # fmt: skip
"""Attributes that count as reads of the surroundings on an object of any type, each with the kind."""
_PATH_CHANGES = frozenset(
    {
        "mkdir",
        "touch",
        "rmdir",
        "unlink",
        "write_text",
        "write_bytes",
        "symlink_to",
        "hardlink_to",
        "chmod",
        "expanduser",
    }
)
"""Attributes of paths that show whether the process may write somewhere, or where its home is."""
_INSIDE = frozenset({"datasets", "verifiers", "transformers", "torch", "pandas", "numpy", *sys.stdlib_module_names})
"""Packages whose modules hold the modules that they import, under the same names."""
_PRIVATE = {"_sys": "sys", "_os": "os", "_time": "time", "_io": "io", "posix": "os"}
_TEMPORARY = frozenset(
    f"tempfile.{name}" for name in ("mkdtemp", "mkstemp", "mktemp", "NamedTemporaryFile", "TemporaryDirectory")
)
_OWN_FOLDERS = frozenset({"importlib.resources.files", "tempfile.TemporaryDirectory", "tempfile.mkdtemp"})
_ELSEWHERE = -99


def _above(depth: int) -> int:
    return depth - 1 if depth >= 0 else _ELSEWHERE


_RESOURCES = frozenset(
    f"importlib.resources.{name}"
    for name in ("files", "read_text", "read_binary", "open_text", "open_binary", "path", "contents", "is_resource")
)
_IMPORTERS = frozenset(
    {"__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__", "pkgutil.resolve_name"}
)
_OPAQUE = frozenset({*MODULES, "builtins"} - {*PARTLY_KNOWN} | {"importlib"})
"""Modules that count as read completely if code computes a name of them or passes the module on, under any alias."""
_CLASSES = frozenset({"datetime.date", "datetime.datetime", "http.HTTPStatus"})
"""Classes that stand on the lists of modules."""
_READERS = frozenset({"getattr", "vars", "__import__", "importlib.import_module", "builtins.getattr"})


class ResolvedNames:
    """Resolves the expressions of one file to the full names that they may stand for, such as `os.environ`."""

    def __init__(self, program: RewardProgram, file: SourceFile) -> None:
        self._program, self._file = program, file
        self._known: dict[str, set[str]] = {}
        self._stars: list[str] = []
        self.others: dict[str, set[str]] = {}
        """Maps full names of the package's other files to the names that they may stand for."""
        self._temporary: dict[str, str] = {}
        """Variables that hold a temporary path, with the function that made the path."""
        self._loggers: set[str] = set()
        """Variables that hold a logger."""
        self._threads: set[str] = set()
        """Variables that hold a thread, whose name counts the threads of the process."""
        self._data: set[str] = set()
        """Variables that hold what was read from data."""
        self._climbing: set[str] = set()
        """Variables that may hold `..` or the beginning of an absolute path."""
        self.package_paths: dict[str, int] = {}
        """Variables that hold a path within the package or a new temporary folder, with the depth of `_depth`."""
        self._folders = len(file.path.removeprefix("src/").split("/")) - 1
        self._beside = program.code.top_names
        self.imports: set[str] = set()
        """Modules that the file imports under their own names."""
        self.called: frozenset[int] = frozenset()
        """The ids of the expressions that the file calls."""
        self.imported_paths: Mapping[str, int] = {}
        """Full names of such variables of all files."""
        self._modules: frozenset[str] = frozenset()
        self._tops: frozenset[str] = frozenset()
        self._defined: frozenset[str] = frozenset()
        self._imported_modules: frozenset[str] = frozenset()
        self.places = OwnPlaces(self.of, [])
        self.rollouts = RolloutNames(None)
        tree = file.tree
        if tree is None:
            return
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
                self._stars += [node.module or ""] if node.module not in PARTLY_KNOWN else []
            elif isinstance(node, ast.Import):
                unaliased = {a.name for a in node.names if not a.asname}
                self.imports |= unaliased | {name.partition(".")[0] for name in unaliased}
        self.called = frozenset(id(node.func) for node in nodes if isinstance(node, ast.Call))
        pairs = [pair for node in nodes for pair in bindings_of(node)]
        for _ in range(3):  # a part of a part of what was read
            self._data |= {target for target, value in pairs if self._comes_from_data(value)}
        for _ in range(3):  # an alias of an alias of an alias
            for target, value in pairs:
                if names := {n for part in _members(value) for n in self.of(part) if _is_worth(n)}:
                    self._known.setdefault(target, set()).update(names)
        for _ in range(2):  # an alias
            self._climbing |= {target for target, value in pairs if self._climbs(value)}
        self.places = OwnPlaces(self.of, pairs)
        self.rollouts = RolloutNames(tree, _functions_by_name(program))
        self._defined = frozenset(_defined_names(program))
        listed = {name for name in program.imported[file.path].values() if is_listed_module(name)}
        self._imported_modules = _OPAQUE | ((listed | self.imports) - _CLASSES)
        self._modules = frozenset(program.imported[file.path].values()) | self.imports
        self._tops = frozenset(module_of(path).partition(".")[0] for path in program.by_file)
        for _ in range(2):
            self._loggers |= {target for target, value in pairs if self._is_logger(value)}
        self._threads = {target for target, value in pairs if self._is_thread(value)}
        for target, value in pairs:
            made = (self.temporary_path(part) for part in ast.walk(value))
            if function := next(filter(None, made), ""):
                self._temporary[target] = function
        for _ in range(3):
            for target, value in pairs:
                if self.is_below_package(value) or (self._depth(value) == -1 and not self._comes_from_data(value)):
                    depth = self._depth(value) or 0
                    self.package_paths[target] = min(depth, self.package_paths.get(target, depth))

    def exported(self) -> dict[str, set[str]]:
        """Map the names of this file that stand for modules to the full names, for files that import this file."""
        imported = {n: {full} for n, full in self._program.imported[self._file.path].items() if is_listed_module(full)}
        unaliased = {n: {n} for n in self.imports if is_listed_module(n)}
        return unaliased | imported | {n: set(full) for n, full in self._known.items()}

    def of(self, node: ast.AST, depth: int = 0) -> set[str]:
        """Return every full name that an expression may stand for. `depth` limits the recursion."""
        if depth > 12:
            return set()
        if isinstance(node, ast.Name):
            stars = {f"{module}.{node.id}" for module in self._stars}
            full = self._program.full_name(self._file, node)
            unbound = full == node.id in PARTLY_KNOWN and full not in self.imports  # a variable of this name
            return {*(() if unbound else (full,)), *self._known.get(node.id, ()), *stars, *self.others.get(full, ())}
        if isinstance(node, ast.Attribute):
            return self._attribute(node.value, node.attr, depth)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, depth + 1)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            return {n for part in _members(node) for n in self.of(part, depth + 1)}
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key, inner = str(node.slice.value), node.value
            owner = _namespace(inner)
            if owner is not None:
                return self._attribute(owner, key, depth)
            if "sys.modules" in self.of(inner, depth + 1):
                return {key}
        return set()

    def _attribute(self, owner: ast.AST, name: str, depth: int) -> set[str]:
        """Return the full names that `owner.name` may stand for."""
        names = {_shortened(f"{n}.{name}") for n in self.of(owner, depth + 1)}
        for full in list(names):
            names |= self.others.get(full, set())
        own = isinstance(owner, ast.Name) and not names & MODULES.keys()
        return names | (self._known.get(name, set()) if own else set())

    def _call(self, node: ast.Call, depth: int) -> set[str]:
        """Return the full names that a call may return, such as `getattr(os, "environ")` or `__import__("os")`."""
        texts = [a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in node.args]
        called = self.of(node.func, depth + 1)
        if called & {"getattr", "builtins.getattr"} and len(texts) > 1 and texts[1] is not None:
            return self._attribute(node.args[0], texts[1], depth)
        if called & {"__import__", "builtins.__import__"} and texts and texts[0] is not None:
            return {texts[0].partition(".")[0]}
        if called & {"importlib.import_module", "importlib.__import__"} and texts and texts[0] is not None:
            return {texts[0]}
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "__getitem__", "__getattribute__"):
            owner = _namespace(node.func.value)
            owner = node.func.value if node.func.attr == "__getattribute__" else owner
            if owner is not None and texts and texts[0] is not None:
                return self._attribute(owner, texts[0], depth)
        inner = node.func
        if isinstance(inner, ast.Call) and inner.args and node.args and isinstance(inner.args[0], ast.Constant):
            applied = self.of(inner.func, depth + 1) & {"operator.attrgetter", "operator.methodcaller"}
            owners = self.of(node.args[0], depth + 1) if applied else set()
            read = str(inner.args[0].value)
            return {_shortened(f"{n}.{read}") for n in owners}
        return set()

    def looks_up(self, node: ast.AST) -> bool:
        """Whether an expression reads a module, or a name of a module, that is computed only when the code runs."""
        if not isinstance(node, ast.Call | ast.Subscript):
            return False
        if isinstance(node, ast.Subscript):
            owner = _namespace(node.value)
            return owner is not None and not isinstance(node.slice, ast.Constant) and self.is_module(owner)
        called = self.of(node.func)
        fixed = [isinstance(a, ast.Constant) for a in node.args]
        if called & {"__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__"}:
            return fixed[:1] != [True]
        if called & {"getattr", "builtins.getattr"}:
            owner = node.args[0] if len(fixed) > 1 and not fixed[1] else None
            return owner is not None and (self.is_module(owner) or self.rollouts.is_rollout(owner))
        direct = {"vars", "dir", "setattr", "hasattr", "isinstance", "callable", "id", "str", "repr", "print"}
        return not called & direct and any(self.is_module(a) for a in _arguments(node)) and not self.of(node)

    def is_module(self, node: ast.AST) -> bool:
        """Whether an expression may be a module that other code made."""
        return bool(self.of(node) & self._imported_modules) or (
            isinstance(node, ast.Call) and bool(self.of(node.func) & {"__import__", "importlib.import_module"})
        )

    def is_below_package(self, node: ast.AST) -> bool:
        """Whether an expression is a path within the package, its resources or a new temporary folder.

        A path that leaves the package (by `..`, `parents` or more `parent` than the file has folders) does not count,
        and neither does one with a part that comes from data: the part may hold `..`.
        """
        for part in ast.walk(node):
            joined = _joined(part)
            if any(map(self._comes_from_data, joined)):
                return False
            if any(self._climbs(one) for one in joined if not isinstance(one, ast.Constant)):
                return False
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                if part.value.startswith(("/", "~")) or ".." in part.value:
                    return False
            elif isinstance(part, ast.Name | ast.Attribute):
                name = part.id if isinstance(part, ast.Name) else part.attr
                if name in ("parents", "sep", "pardir", "anchor", "root") and name not in self.package_paths:
                    return False
        depth = self._depth(node)
        return depth is not None and depth >= 0

    def _climbs(self, node: ast.AST) -> bool:
        """Whether an expression may make a text of nothing but dots and separators, or an absolute path."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _CLIMBS.match(part.value):
                return True
            if isinstance(part, ast.Name) and part.id in self._climbing:
                return True
            if isinstance(part, ast.Call) and called_name(part) in ("chr", "bytes", "bytearray"):
                return True
        return False

    def _depth(self, node: ast.AST) -> int | None:
        """Return how many folders of the package, or of a temporary folder, lie above a path; None for no such path.

        The folder that holds the package, as `site-packages`, has -1: only a path to what the package has there leads
        back inside. What lies elsewhere has less.
        """
        if isinstance(node, ast.Name | ast.Attribute):
            known = self._depth_of_name(node)
            if known is not None:
                return known
        if isinstance(node, ast.Attribute):
            inner = self._depth(node.value)
            return inner if inner is None or node.attr != "parent" else _above(inner)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            left, right = self._depth(node.left), self._depth(node.right)
            return right if left is None else self._joined_depth(left, [node.right])
        if isinstance(node, ast.Call):
            called = called_name(node)
            inner = self._depth(node.func.value) if isinstance(node.func, ast.Attribute) else None
            if called in ("joinpath", "with_name") and inner is not None:
                return self._joined_depth(_above(inner) if called == "with_name" else inner, node.args)
            given = [depth for argument in node.args if (depth := self._depth(argument)) is not None]
            if called == "dirname" and given:
                return _above(min(given))
            if called == "join" and given and inner is None:
                return self._joined_depth(min(given), node.args[1:])
            if inner is None and not given and isinstance(node.func, ast.Name | ast.Attribute):
                return self._depth_of_name(node.func)
            return min([*given, *([] if inner is None else [inner])], default=None)
        return min((d for child in ast.iter_child_nodes(node) if (d := self._depth(child)) is not None), default=None)

    def _depth_of_name(self, node: ast.Name | ast.Attribute) -> int | None:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name == "__file__":
            return self._folders
        if name in self.package_paths and (isinstance(node, ast.Name) or ast.unparse(node.value) in ("self", "cls")):
            return self.package_paths[name]
        resolved = self._program.full_name(self._file, node)
        if resolved in _OWN_FOLDERS:
            return 0
        return self.imported_paths.get(resolved)

    def _joined_depth(self, depth: int, parts: Sequence[ast.expr]) -> int:
        """Return the depth of a path to which parts are joined."""
        for part in parts:
            pieces = part.values if isinstance(part, ast.JoinedStr) else [part]
            texts = [p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else "" for p in pieces]
            folders = [folder for folder in "".join(texts).split("/") if folder not in ("", ".")]
            if depth == -1 and not self._is_beside(texts):
                return _ELSEWHERE
            depth = depth + len(folders) if depth >= -1 else depth
        return depth

    def _is_beside(self, texts: Sequence[str]) -> bool:
        """Whether what the package has beside itself may have a name that begins and ends with the given texts."""
        start, end = texts[0].lstrip("./").partition("/")[0], texts[-1] if len(texts) > 1 else ""
        named = [t for t in self._beside if (t.startswith(start) and t.endswith(end) if end else t == start)]
        return bool(start or end) and (bool(named) or not self._beside)

    def temporary_path(self, node: ast.AST) -> str:
        """Return the function of `tempfile` that made the temporary path of an expression; empty for others."""
        if isinstance(node, ast.Name):
            return self._temporary.get(node.id, "")
        made = self.of(node.func) & _TEMPORARY if isinstance(node, ast.Call) else set()
        return min(made, default="")

    def _comes_from_data(self, node: ast.AST) -> bool:
        """Whether an expression contains a value that was read from data, such as a list of file names."""
        return any(
            (isinstance(part, ast.Name) and part.id in self._data) or (isinstance(part, ast.Call) and _reads_data(part))
            for part in ast.walk(node)
        )

    def attribute_kind(self, node: ast.Attribute) -> str:
        """Return the kind of surroundings that an attribute reads on an object of any type; empty if it reads none."""
        if node.attr in _LOGGER and self._is_logger(node.value):
            return INTERPRETER
        if node.attr in ("resolve", "absolute") and self._imports("pathlib"):
            return "" if self.is_below_package(node.value) else FILES
        if node.attr == "when" and self._imports("asyncio"):
            return TIMERS
        if node.attr in ("get_name", "getName") and (self._imports("asyncio") or self._imports("threading")):
            return INTERPRETER
        if node.attr in ("name", "ident", "native_id") and self._is_thread(node.value):
            return INTERPRETER
        if node.attr in ("statistics", "idle_for") and self._imports("tenacity"):
            return TIMERS
        if node.attr == "cuda" and self._imports("torch"):
            return MACHINE
        if node.attr in _PATH_CHANGES and self._imports("pathlib"):
            return "" if self.is_below_package(node.value) else FILES
        kind = _ATTRIBUTES.get(node.attr, "")
        return "" if kind == FILES and self.is_below_package(node.value) else kind

    def private_name(self, names: Iterable[str]) -> str:
        """Return the first name that is private in an imported module of the standard library; empty without one."""
        return next((name for name in sorted(names) if self._is_private(name)), "")

    def _is_private(self, name: str) -> bool:
        top, *parts = name.split(".")
        known = top in sys.stdlib_module_names and top not in _PUBLIC and self._imports(top)
        return known and any(part.startswith("_") and not part.startswith("__") for part in parts)

    def foreign_resources(self, node: ast.AST) -> bool:
        """Whether a call asks for the resources of another package."""
        if not isinstance(node, ast.Call) or not self.of(node.func) & _RESOURCES or not node.args:
            return False
        named = node.args[0]
        return isinstance(named, ast.Constant) and str(named.value).partition(".")[0] not in self._tops

    def is_import(self, node: ast.Name) -> bool:
        """Whether a name is imported, and not from the package itself."""
        full = self._program.imported[self._file.path].get(node.id, node.id if node.id in self.imports else "")
        return bool(full) and full.partition(".")[0] not in self._tops

    def is_own(self, node: ast.AST) -> bool:
        """Whether an expression is a name that the package itself makes, such as a class or a function of it."""
        name = self._program.full_name(self._file, node)
        return name.partition(".")[0] in self._tops or name in self._defined

    def unlisted_modules(self, node: ast.AST) -> list[str]:
        """Return the modules that a node imports and of which nothing is known (known_modules.py)."""
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and self.of(node.func) & _IMPORTERS:
            modules = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        known = is_known_module if isinstance(node, ast.Import) else is_known
        return [m for m in modules if m.partition(".")[0] not in self._tops and not known(m)]

    def _is_logger(self, node: ast.AST) -> bool:
        """Whether an expression is a logger of `logging`."""
        if isinstance(node, ast.Call):
            return "logging.getLogger" in self.of(node.func)
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        return name in self._loggers or "logging.root" in self.of(node)

    def _is_thread(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return bool(self.of(node.func) & {"threading.Thread", "threading.Timer"})
        return isinstance(node, ast.Name) and node.id in self._threads

    def imports_module(self, module: str) -> bool:
        """Whether the file imports a module or something of it."""
        return self._imports(module)

    def _imports(self, module: str) -> bool:
        return any(name == module or name.startswith(f"{module}.") for name in self._modules)


def resolve_names(program: RewardProgram, files: Iterable[SourceFile]) -> dict[str, ResolvedNames]:
    """Map the path of every file to its resolved names."""
    resolved = {file.path: ResolvedNames(program, file) for file in files}
    others = {
        f"{module_of(path)}.{name}": full for path, names in resolved.items() for name, full in names.exported().items()
    }
    paths = {
        f"{module_of(path)}.{name}": depth
        for path, names in resolved.items()
        for name, depth in names.package_paths.items()
    }
    follow_rollouts(names.rollouts for names in resolved.values())
    for names in resolved.values():
        names.others = others
        names.imported_paths = paths
    return resolved


def _defined_names(program: RewardProgram) -> set[str]:
    """Return the names of the functions and classes of all files of a package."""
    return {
        node.name
        for file in program.code.files
        for node in (ast.walk(file.tree) if file.tree is not None else ())
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _functions_by_name(program: RewardProgram) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the functions of all files of a package by their name."""
    named: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for functions in program.by_file.values():
        for function in functions:
            named.setdefault(function.name, []).append(function.node)
    return named


def _arguments(node: ast.Call) -> Iterator[ast.AST]:
    """Yield the arguments of a call, without the object of a `getattr`."""
    expressions = [*node.args, *(k.value for k in node.keywords)]
    direct = {"getattr", "builtins.getattr"}
    skip = isinstance(node.func, ast.Name) and node.func.id in direct
    for value in expressions[1:] if skip else expressions:
        yield from _members(value)


_CLIMBS = re.compile(r"\A(?:[./~\\]+\Z|[/~])")
"""Matches a text that leads upwards, or that several of its kind put together do."""


def _joined(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that an expression joins to a path: those after `/`, and the arguments of a join."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        return [node.right]
    return node.args if isinstance(node, ast.Call) and called_name(node) in ("joinpath", "with_name", "join") else []


def _reads_data(call: ast.Call) -> bool:
    """Whether a call returns text or values from a file, or decodes them from a text."""
    return called_name(call) in ("read", "read_text", "read_bytes", "readline", "readlines", "load", "loads", "decode")


def _shortened(name: str) -> str:
    """Return `sys.argv` for `logging.sys.argv`, because an imported module is an attribute of the importing module."""
    parts = name.split(".")
    if parts[0] in ("self", "cls", "trace", "task", "state", "time", "datetime"):
        return name
    for at in range(len(parts) - 1, 0, -1):
        module = _PRIVATE.get(parts[at], parts[at])
        holds = parts[0] in _INSIDE and parts[0] != module and at < len(parts) - 1
        inside = holds and module in ("socket", "subprocess", "requests", "httpx", "aiohttp", "threading")
        if inside or module in ("sys", "os", "gc", "time", "builtins"):
            return ".".join([module, *parts[at + 1 :]])
    return name


def _namespace(node: ast.AST) -> ast.AST | None:
    """Return x for the expressions `vars(x)` and `x.__dict__`; None for any other expression."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars" and node.args:
        return node.args[0]
    return None


def _is_worth(name: str) -> bool:
    """Whether aliases of a name are followed: only of modules and of functions that read attributes.

    A read of a value such as `sys.argv` is already reported at the assignment of the alias.
    """
    module, _, last = name.rpartition(".")
    return is_listed_module(name) or may_be_part(module, last) or name in _READERS or name.startswith("operator.")


def _members(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions that an expression may evaluate to, or that its collection contains."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        for part in node.elts:
            yield from _members(part)
    elif isinstance(node, ast.Dict):
        for part in node.values:
            yield from _members(part)
    elif isinstance(node, ast.IfExp):
        yield from (*_members(node.body), *_members(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _members(part)
    else:
        yield node
