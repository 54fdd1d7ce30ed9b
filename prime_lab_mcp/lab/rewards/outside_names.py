"""Resolves names in source code, including aliases, and decides which of them read the reward's surroundings.

Surroundings are everything besides the task and the completion: files, the network, processes, timers, the interpreter.
A module that can read surroundings (os, sys, time, ...) counts with all its names except for a list of harmless ones: a
list of its harmful names could never be complete. The module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from prime_lab_mcp.lab.rewards.known_modules import is_known
from prime_lab_mcp.lab.rewards.own_place import OwnPlaces
from prime_lab_mcp.lab.rewards.rollout_reads import RolloutNames, follow_rollouts
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, module_of
from prime_lab_mcp.lab.state.source_code import SourceFile

FILES = "files and folders"
NETWORK = "the network"
PROCESSES = "processes"
ARGUMENTS = "the arguments of the process"
ARGUMENTS_IF_NONE_GIVEN = "the arguments of the process where its caller gives none"
TIMERS = "timers"
INTERPRETER = "the state of the interpreter"
STATE = "what earlier calls left"
LOOKUP = "names that are looked up at run time"
MACHINE = "the machine"
INSTALLED = "which modules are installed"
SAMPLING = "how a rollout was sampled"
PLACE = "where its code lies"
UNLISTED = "whatever a module reads that is not known here"

_HARMLESS = {
    "time": "asctime mktime sleep strptime struct_time tzset",
    "os": (
        "DirEntry PathLike devnull environ environb error fsdecode fsencode fspath getenv "
        "linesep name path putenv register_at_fork sched_yield unsetenv urandom"
    ),
    "os.path": ("basename commonpath commonprefix dirname isabs join normcase normpath sep split splitext"),
    "sys": (
        "argv byteorder exc_info executable exit float_info getsizeof int_info intern maxsize maxunicode modules "
        "orig_argv prefix set_int_max_str_digits setrecursionlimit stderr stdout"
    ),
    "gc": "collect disable enable",
    "socket": "error gaierror timeout",
    "subprocess": "CalledProcessError CompletedProcess DEVNULL PIPE STDOUT SubprocessError TimeoutExpired",
    "multiprocessing": "TimeoutError",
    "logging": (
        "BASIC_FORMAT CRITICAL DEBUG ERROR FATAL FileHandler Filter Formatter Handler INFO Logger LoggerAdapter NOTSET "
        "NullHandler StreamHandler WARN WARNING addLevelName basicConfig captureWarnings config critical debug disable "
        "error exception getLevelName getLogger handlers info log makeLogRecord setLoggerClass warn warning"
    ),
    "threading": (
        "Barrier BoundedSemaphore BrokenBarrierError Condition Event Lock RLock Semaphore Thread Timer excepthook local"
    ),
    "_thread": "LockType RLock allocate_lock error start_new_thread",
    "torch.backends": "cuda cudnn mkl mps",
    "torch.distributed": "optim",
    "shutil": "Error rmtree",
    "signal": "ITIMER_PROF ITIMER_REAL Signals alarm setitimer signal",
    "contextvars": "ContextVar Token",
    "traceback": "TracebackException format_exc format_exception format_exception_only print_exc print_exception",
    "zipfile": "BadZipFile ZIP_DEFLATED ZIP_STORED ZipInfo",
    "tarfile": "TarError TarInfo",
    "gzip": "compress decompress",
    "bz2": "BZ2Compressor BZ2Decompressor compress decompress",
    "lzma": "LZMACompressor LZMADecompressor LZMAError compress decompress",
    "tokenize": "TokenError TokenInfo generate_tokens tokenize untokenize",
    "sqlite3": "Connection Cursor DatabaseError IntegrityError OperationalError ProgrammingError Row Warning",
    "uuid": "NAMESPACE_DNS NAMESPACE_URL UUID uuid3 uuid4 uuid5",
    "ssl": "SSLError",
    "email.utils": "formataddr getaddresses parseaddr parsedate parsedate_to_datetime",
    "locale": "LC_ALL LC_NUMERIC atof atoi delocalize",
    "requests": "RequestException exceptions",
    "httpx": "HTTPError HTTPStatusError Limits RequestError Timeout TimeoutException",
    "aiohttp": "ClientError ClientTimeout",
    "anyio": (
        "BrokenResourceError CapacityLimiter CancelScope Condition Event Lock Semaphore create_memory_object_stream "
        "create_task_group fail_after from_thread get_cancelled_exc_class lowlevel move_on_after run sleep to_thread"
    ),
    "huggingface_hub": "errors utils",
    "verifiers.v1.runtimes": "ProgramResult Runtime RuntimeConfig",
}
"""For each module of `_MODULES`, the names that read nothing of the surroundings."""
_MODULES = {
    "time": TIMERS,
    "os": FILES,
    "os.path": FILES,
    "posixpath": FILES,
    "posix": FILES,
    "glob": FILES,
    "shutil": FILES,
    "fileinput": FILES,
    "linecache": FILES,
    "sys": INTERPRETER,
    "gc": INTERPRETER,
    "resource": INTERPRETER,
    "tracemalloc": INTERPRETER,
    "platform": MACHINE,
    "uuid": MACHINE,
    "locale": MACHINE,
    "signal": INTERPRETER,
    "atexit": INTERPRETER,
    "contextvars": INTERPRETER,
    "traceback": INTERPRETER,
    "sched": TIMERS,
    "email.utils": TIMERS,
    "http.cookiejar": TIMERS,
    "sqlite3": FILES,
    "zipfile": FILES,
    "tarfile": FILES,
    "gzip": FILES,
    "bz2": FILES,
    "lzma": FILES,
    "tokenize": FILES,
    "dbm": FILES,
    "shelve": FILES,
    "filecmp": FILES,
    "zipimport": FILES,
    "netrc": FILES,
    "zoneinfo": FILES,
    "ssl": NETWORK,
    "selectors": NETWORK,
    "openai": NETWORK,
    "anthropic": NETWORK,
    "marshal": LOOKUP,
    "pydoc": LOOKUP,
    "unittest.mock": LOOKUP,
    "logging.config": LOOKUP,
    "sysconfig": INTERPRETER,
    "site": INTERPRETER,
    "pkgutil": INTERPRETER,
    "importlib.metadata": INTERPRETER,
    "importlib.util": INTERPRETER,
    "importlib.machinery": INTERPRETER,
    "faulthandler": INTERPRETER,
    "ctypes": INTERPRETER,
    "cffi": INTERPRETER,
    "mmap": FILES,
    "fcntl": FILES,
    "socket": NETWORK,
    "_socket": NETWORK,
    "socketserver": NETWORK,
    "select": NETWORK,
    "requests": NETWORK,
    "httpx": NETWORK,
    "aiohttp": NETWORK,
    "urllib3": NETWORK,
    "urllib.request": NETWORK,
    "http.client": NETWORK,
    "ftplib": NETWORK,
    "smtplib": NETWORK,
    "subprocess": PROCESSES,
    "_posixsubprocess": PROCESSES,
    "multiprocessing": PROCESSES,
    "psutil": PROCESSES,
    "pty": PROCESSES,
    "pwd": PROCESSES,
    "multiprocess": PROCESSES,
    "huggingface_hub.constants": FILES,
    "datasets.config": FILES,
    "platformdirs": FILES,
    "appdirs": FILES,
    "pyarrow.fs": FILES,
    "fsspec": FILES,
    "logging": INTERPRETER,
    "threading": INTERPRETER,
    "_thread": INTERPRETER,
    "readline": INTERPRETER,
    "copyreg": INTERPRETER,
    "torch.cuda": MACHINE,
    "torch.mps": MACHINE,
    "torch.xpu": MACHINE,
    "torch.accelerator": MACHINE,
    "torch.backends": MACHINE,
    "torch.version": MACHINE,
    "torch.distributed": PROCESSES,
    "httpcore": NETWORK,
    "anyio": NETWORK,
    "xmlrpc": NETWORK,
    "imaplib": NETWORK,
    "poplib": NETWORK,
    "telnetlib": NETWORK,
    "nntplib": NETWORK,
    "http.server": NETWORK,
    "urllib.robotparser": NETWORK,
    "webbrowser": NETWORK,
    "wsgiref": NETWORK,
    "boto3": NETWORK,
    "botocore": NETWORK,
    "zmq": NETWORK,
    "huggingface_hub": NETWORK,
    "verifiers.v1.runtimes": PROCESSES,
    "verifiers.v1.clients": NETWORK,
    "verifiers.v1.interception": NETWORK,
    "verifiers.v1.serve": PROCESSES,
    "verifiers.v1.cli": PROCESSES,
    "verifiers.v1.utils.version": MACHINE,
    "torch.hub": NETWORK,
    "timeit": TIMERS,
    "codeop": LOOKUP,
    "runpy": LOOKUP,
    "websockets": NETWORK,
    "grpc": NETWORK,
}
"""Modules that can read surroundings, each with the kind of these surroundings."""
_NAMES = {
    "open": FILES,
    "io.open": FILES,
    "io.open_code": FILES,
    "io.FileIO": FILES,
    "codecs.open": FILES,
    "tempfile.gettempdir": FILES,
    "tempfile.tempdir": FILES,
    "configparser.ConfigParser.read": FILES,
    "asyncio.get_running_loop": TIMERS,
    "asyncio.get_event_loop": TIMERS,
    "logging.LogRecord": TIMERS,
    "doctest.testfile": FILES,
    "curses.setupterm": MACHINE,
    "decimal.getcontext": STATE,
    "weakref.getweakrefcount": INTERPRETER,
    "verifiers.__file__": FILES,
    "verifiers.__path__": FILES,
    "xml.etree.ElementTree.parse": FILES,
    "xml.etree.ElementTree.iterparse": FILES,
    "numpy.load": FILES,
    "numpy.fromfile": FILES,
    "numpy.loadtxt": FILES,
    "numpy.genfromtxt": FILES,
    "numpy.memmap": FILES,
    "logging.FileHandler": FILES,
    "mimetypes.read_mime_types": FILES,
    "shutil.which": MACHINE,
    "os.cpu_count": MACHINE,
    "os.process_cpu_count": MACHINE,
    "multiprocessing.cpu_count": MACHINE,
    "sys.platform": MACHINE,
    "sys.version": MACHINE,
    "sys.version_info": MACHINE,
    "sys.hexversion": MACHINE,
    "sys.implementation": MACHINE,
    "asyncio.current_task": INTERPRETER,
    "asyncio.all_tasks": INTERPRETER,
    "asyncio.get_event_loop_policy": INTERPRETER,
    "threading.main_thread": INTERPRETER,
    "warnings.catch_warnings": INTERPRETER,
    "types.FunctionType": LOOKUP,
    "types.CodeType": LOOKUP,
    "types.LambdaType": LOOKUP,
    "pickle.load": LOOKUP,
    "pickle.loads": LOOKUP,
    "pickle.Unpickler": LOOKUP,
    "sys.getrecursionlimit": STATE,
    "sys.get_int_max_str_digits": STATE,
    "__spec__": INTERPRETER,
    "__loader__": INTERPRETER,
    "random.getstate": INTERPRETER,
    "random.setstate": INTERPRETER,
    "threading.enumerate": INTERPRETER,
    "threading.active_count": INTERPRETER,
    "threading.current_thread": INTERPRETER,
    "inspect.trace": INTERPRETER,
    "inspect.getouterframes": INTERPRETER,
    "inspect.getinnerframes": INTERPRETER,
    "traceback.extract_stack": INTERPRETER,
    "traceback.format_stack": INTERPRETER,
    "traceback.walk_stack": INTERPRETER,
    "argparse.ArgumentParser": ARGUMENTS,
    "timeit.default_timer": TIMERS,
    "asyncio.open_connection": NETWORK,
    "asyncio.create_subprocess_exec": PROCESSES,
    "asyncio.create_subprocess_shell": PROCESSES,
    "concurrent.futures.ProcessPoolExecutor": PROCESSES,
    "eval": LOOKUP,
    "exec": LOOKUP,
    "compile": LOOKUP,
    "globals": LOOKUP,
    "locals": LOOKUP,
    "__builtins__": LOOKUP,
    "builtins.eval": LOOKUP,
    "builtins.exec": LOOKUP,
    "builtins.open": FILES,
    "pandas.read_csv": FILES,
    "pandas.read_json": FILES,
    "pandas.read_table": FILES,
    "pandas.read_parquet": FILES,
    "pandas.read_pickle": LOOKUP,
    "click.get_app_dir": FILES,
    "rich.console.Console": MACHINE,
    "warnings.filters": INTERPRETER,
    "warnings.onceregistry": INTERPRETER,
    "warnings.defaultaction": INTERPRETER,
    "inspect.getfile": PLACE,
    "inspect.getsourcefile": PLACE,
    "inspect.getabsfile": PLACE,
    "inspect.getmodule": PLACE,
    "inspect.findsource": PLACE,
    "inspect.getsource": PLACE,
    "inspect.getsourcelines": PLACE,
    "sys.exec_prefix": PLACE,
    "sys.base_prefix": PLACE,
    "sys.base_exec_prefix": PLACE,
    "torch.get_num_threads": MACHINE,
    "torch.get_num_interop_threads": MACHINE,
    "torch.__version__": MACHINE,
    "torch.initial_seed": INTERPRETER,
    "torch.get_rng_state": INTERPRETER,
    "numpy.random.get_state": INTERPRETER,
    "numpy.random.set_state": INTERPRETER,
    "numpy.show_config": MACHINE,
    "numpy.show_runtime": MACHINE,
    "numpy.__version__": MACHINE,
    "verifiers.__version__": MACHINE,
    "verifiers.v1.__version__": MACHINE,
    "datasets.is_caching_enabled": FILES,
    "datasets.__version__": MACHINE,
    "anyio.get_current_task": INTERPRETER,
    "anyio.get_running_tasks": INTERPRETER,
    "sniffio.current_async_library": INTERPRETER,
    "typing.get_type_hints": LOOKUP,
    "typing_extensions.get_type_hints": LOOKUP,
    "typing.ForwardRef": LOOKUP,
    "inspect.get_annotations": LOOKUP,
    "pydantic.ImportString": LOOKUP,
    "pydantic.FilePath": FILES,
    "pydantic.DirectoryPath": FILES,
    "pydantic.NewPath": FILES,
    "pydantic.SocketPath": FILES,
    "pydantic.PastDate": TIMERS,
    "pydantic.PastDatetime": TIMERS,
    "pydantic.FutureDate": TIMERS,
    "pydantic.FutureDatetime": TIMERS,
    "pandas.Timestamp.now": TIMERS,
    "pandas.Timestamp.today": TIMERS,
    "pandas.Timestamp.utcnow": TIMERS,
    "abc._get_dump": INTERPRETER,
    "pandas.eval": LOOKUP,
    "doctest.testmod": LOOKUP,
    "importlib.reload": LOOKUP,
    "xml.dom.minidom.parse": FILES,
    "xml.dom.pulldom.parse": FILES,
    "xml.sax.parse": FILES,
    "mimetypes.init": FILES,
    "mimetypes.knownfiles": FILES,
    "transformers.pipeline": FILES,
    "torch.load": LOOKUP,
    "yaml.load": LOOKUP,
    "yaml.unsafe_load": LOOKUP,
    "yaml.full_load": LOOKUP,
    "input": INTERPRETER,
    "breakpoint": INTERPRETER,
    "builtins.input": INTERPRETER,
    "builtins.breakpoint": INTERPRETER,
}
"""Names of other modules that read surroundings, and names whose kind differs from that of their module."""
_LOOPS: dict[str, str] = {
    "_get_running_loop": TIMERS,
    "get_running_loop": TIMERS,
    "get_event_loop": TIMERS,
    "current_task": INTERPRETER,
    "all_tasks": INTERPRETER,
    "get_event_loop_policy": INTERPRETER,
}
"""Functions of `asyncio` and of its modules (`asyncio.tasks`, `asyncio.events`) that show the loop and its tasks."""
_PUBLIC = frozenset({"abc", "ast", "collections", "enum", "functools", "os", "re", "string", "sys", "typing"})
"""Modules of the standard library whose private names are harmless, or are judged one by one."""
_LOGGER = frozenset(
    {"handlers", "hasHandlers", "getEffectiveLevel", "isEnabledFor", "level", "propagate", "disabled", "manager",
     "parent", "filters", "root"}
)  # fmt: skip
"""Attributes of a logger that show how the process logs."""
_OS_PROCESSES = ("fork", "exec", "spawn", "wait", "kill", "get", "system", "popen", "pidfd", "posix_spawn", "times")
_ATTRIBUTES = {
    "iterdir": FILES, "rglob": FILES, "read_text": FILES, "read_bytes": FILES, "exists": FILES, "is_file": FILES,
    "is_dir": FILES, "is_mount": FILES, "is_socket": FILES, "lstat": FILES, "stat": FILES, "open": FILES,
    "glob": FILES, "is_symlink": FILES, "readlink": FILES, "samefile": FILES, "owner": FILES,
    "get_coro": INTERPRETER, "get_stack": INTERPRETER, "findCaller": INTERPRETER, "isatty": INTERPRETER,
    "loggerDict": INTERPRETER, "FileHandler": FILES, "getnode": MACHINE,
    "tb_frame": INTERPRETER, "f_back": INTERPRETER, "f_globals": INTERPRETER, "f_builtins": INTERPRETER,
    "gi_frame": INTERPRETER, "cr_frame": INTERPRETER, "cache_info": STATE,
    "from_pretrained": FILES, "load_from_disk": FILES, "hf_hub_download": NETWORK, "snapshot_download": NETWORK,
    "create_connection": NETWORK, "create_unix_connection": NETWORK, "create_datagram_endpoint": NETWORK,
    "create_server": NETWORK, "sock_connect": NETWORK, "getaddrinfo": NETWORK, "getnameinfo": NETWORK,
    "open_connection": NETWORK, "open_unix_connection": NETWORK, "start_server": NETWORK,
    "create_subprocess_exec": PROCESSES, "create_subprocess_shell": PROCESSES, "subprocess_exec": PROCESSES,
    "subprocess_shell": PROCESSES,
    "get_loop": TIMERS, "_get_loop": TIMERS, "_max_workers": MACHINE,
    "__globals__": LOOKUP, "__subclasses__": LOOKUP, "__loader__": LOOKUP, "__builtins__": LOOKUP,
}  # fmt: skip
"""Attributes that count as reads of the surroundings on an object of any type, each with the kind."""
_INSIDE = frozenset({"datasets", "verifiers", "transformers", "torch", "pandas", "numpy", *sys.stdlib_module_names})
"""Packages whose modules hold the modules that they import, under the same names."""
_PRIVATE = {"_sys": "sys", "_os": "os", "_time": "time", "_io": "io", "posix": "os"}
_TEMPORARY = frozenset(
    f"tempfile.{name}" for name in ("mkdtemp", "mkstemp", "mktemp", "NamedTemporaryFile", "TemporaryDirectory")
)
_OPAQUE = frozenset({*_MODULES, "builtins", "importlib"})
"""Modules that count as read completely if code computes an attribute's name or passes the module to a function."""
_RESOURCES = frozenset(
    f"importlib.resources.{name}"
    for name in ("files", "read_text", "read_binary", "open_text", "open_binary", "path", "contents", "is_resource")
)
_IMPORTERS = frozenset(
    {"__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__", "pkgutil.resolve_name"}
)
_READERS = frozenset({"getattr", "vars", "__import__", "importlib.import_module", "builtins.getattr"})


def outside_kind(name: str) -> str:
    """Return the kind of surroundings that a resolved name reads; empty if it reads none."""
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("asyncio.") and (loop := next((_LOOPS[p] for p in name.split(".") if p in _LOOPS), "")):
        return loop
    if name.startswith("pandas.read_"):
        return FILES
    module, _, last = name.rpartition(".")
    while module and module not in _MODULES:
        module, _, last = module.rpartition(".")
    if not module or name in _MODULES or last in _HARMLESS.get(module, "").split() or last.endswith("Error"):
        return ""
    if last.isupper() and module in ("signal", "sqlite3", "zipfile", "ssl", "gzip", "lzma"):
        return ""
    if (module, last[:1].isupper()) in (("os", True), ("socket", True), ("subprocess", True)) and last != "Popen":
        return ""  # constants
    if module == "os" and last.startswith(_OS_PROCESSES):
        return PROCESSES
    return _MODULES[module]


def _is_listed(module: str) -> bool:
    """Whether a module, or one above it, is known to be harmless, or its names are judged one by one."""
    parts = module.split(".")
    return is_known(module) or any(".".join(parts[:n]) in _MODULES for n in range(1, len(parts) + 1))


class ResolvedNames:
    """Resolves the expressions of one file to the full names that they may stand for, such as `os.environ`."""

    def __init__(self, program: RewardProgram, file: SourceFile) -> None:
        self._program, self._file = program, file
        self._known: dict[str, set[str]] = {}
        self._stars: list[str] = []
        self._unaliased: set[str] = set()
        self.others: dict[str, set[str]] = {}
        """Maps full names of the package's other files to the names that they may stand for."""
        self._temporary: dict[str, str] = {}
        """Variables that hold a temporary path, with the function that made the path."""
        self._loggers: set[str] = set()
        """Variables that hold a logger."""
        self._data: set[str] = set()
        """Variables that hold what was read from data."""
        self.package_paths: set[str] = set()
        """Variables that hold a path within the package or a new temporary folder."""
        self.imported_paths: frozenset[str] = frozenset()
        """Full names of such variables of all files."""
        self._modules: frozenset[str] = frozenset()
        self._tops: frozenset[str] = frozenset()
        self.places = OwnPlaces(self.of, [])
        self.rollouts = RolloutNames(None)
        tree = file.tree
        if tree is None:
            return
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
                self._stars.append(node.module or "")
            elif isinstance(node, ast.Import):
                self._unaliased |= {a.name for a in node.names if not a.asname}
        pairs = [pair for node in nodes for pair in _bindings(node)]
        for _ in range(3):  # a part of a part of what was read
            self._data |= {target for target, value in pairs if self._comes_from_data(value)}
        for _ in range(3):  # an alias of an alias of an alias
            for target, value in pairs:
                if names := {n for part in _members(value) for n in self.of(part) if _is_worth(n)}:
                    self._known.setdefault(target, set()).update(names)
        self.places = OwnPlaces(self.of, pairs)
        self.rollouts = RolloutNames(tree, _functions_by_name(program))
        self._modules = frozenset(program.imported[file.path].values()) | self._unaliased
        self._tops = frozenset(module_of(path).partition(".")[0] for path in program.by_file)
        for _ in range(2):
            self._loggers |= {target for target, value in pairs if self._is_logger(value)}
        for target, value in pairs:
            made = (self.temporary_path(part) for part in ast.walk(value))
            if function := next(filter(None, made), ""):
                self._temporary[target] = function
        for _ in range(3):
            self.package_paths |= {t for t, v in pairs if self.is_below_package(v)}

    def exported(self) -> dict[str, set[str]]:
        """Map the names of this file that stand for modules to the full names, for files that import this file."""
        imported = {n: {full} for n, full in self._program.imported[self._file.path].items() if full in _OPAQUE}
        unaliased = {n: {n} for n in self._unaliased if n in _OPAQUE}
        return unaliased | imported | {n: set(full) for n, full in self._known.items()}

    def of(self, node: ast.AST, depth: int = 0) -> set[str]:
        """Return every full name that an expression may stand for. `depth` limits the recursion."""
        if depth > 12:
            return set()
        if isinstance(node, ast.Name):
            stars = {f"{module}.{node.id}" for module in self._stars}
            full = self._program.full_name(self._file, node)
            return {full, *self._known.get(node.id, ()), *stars, *self.others.get(full, ())}
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
        own = isinstance(owner, ast.Name) and not names & set(_MODULES)
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
        """Whether an expression may be one of the modules in `_OPAQUE`, or an imported module."""
        return bool(self.of(node) & _OPAQUE) or (
            isinstance(node, ast.Call) and bool(self.of(node.func) & {"__import__", "importlib.import_module"})
        )

    def is_below_package(self, node: ast.AST) -> bool:
        """Whether an expression is a path within the package, its resources or a new temporary folder.

        A path that leaves the package (by `..`, `parents` or more than two `parent`) does not count, and neither does
        one with a part that comes from data: the part may hold `..`.
        """
        own = False
        ups = 0
        for part in ast.walk(node):
            if any(map(self._comes_from_data, _joined(part))):
                return False
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                if part.value.startswith(("/", "~")) or ".." in part.value:
                    return False
            elif isinstance(part, ast.Name | ast.Attribute):
                name = part.id if isinstance(part, ast.Name) else part.attr
                resolved = self._program.full_name(self._file, part)
                if name in ("parents", "sep", "pardir", "anchor", "root"):
                    return False
                ups += name in ("parent", "dirname")
                own |= name == "__file__" or (isinstance(part, ast.Name) and name in self.package_paths)
                own |= resolved in self.imported_paths
                own |= resolved in ("importlib.resources.files", "tempfile.TemporaryDirectory", "tempfile.mkdtemp")
        return own and ups <= 2

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

    def unlisted_modules(self, node: ast.AST) -> list[str]:
        """Return the modules that a node imports and of which nothing is known (known_modules.py)."""
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and self.of(node.func) & _IMPORTERS:
            modules = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return [m for m in modules if m.partition(".")[0] not in self._tops and not _is_listed(m)]

    def _is_logger(self, node: ast.AST) -> bool:
        """Whether an expression is a logger of `logging`."""
        if isinstance(node, ast.Call):
            return "logging.getLogger" in self.of(node.func)
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        return name in self._loggers or "logging.root" in self.of(node)

    def _imports(self, module: str) -> bool:
        return any(name == module or name.startswith(f"{module}.") for name in self._modules)


def resolve_names(program: RewardProgram, files: Iterable[SourceFile]) -> dict[str, ResolvedNames]:
    """Map the path of every file to its resolved names."""
    resolved = {file.path: ResolvedNames(program, file) for file in files}
    others = {
        f"{module_of(path)}.{name}": full for path, names in resolved.items() for name, full in names.exported().items()
    }
    paths = frozenset(f"{module_of(path)}.{name}" for path, names in resolved.items() for name in names.package_paths)
    follow_rollouts(names.rollouts for names in resolved.values())
    for names in resolved.values():
        names.others = others
        names.imported_paths = paths
    return resolved


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


def _joined(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that an expression joins to a path: those after `/`, and the arguments of a join."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        return [node.right]
    return node.args if isinstance(node, ast.Call) and _called(node) in ("joinpath", "with_name", "join") else []


def _reads_data(call: ast.Call) -> bool:
    """Whether a call returns text or values from a file, or decodes them from a text."""
    return _called(call) in ("read", "read_text", "read_bytes", "readline", "readlines", "load", "loads", "decode")


def _called(call: ast.Call) -> str:
    """Return the last name of a called function or method; empty for other expressions."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


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
    return name in _OPAQUE or name in _READERS or name.startswith("operator.")


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


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield (name, value) for every variable or attribute that a node assigns. Of attributes only the last name
    counts."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _targets(node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield from _targets(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, node.context_expr)
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        yield from ((a.arg, d) for a, d in zip(positional[::-1], node.defaults[::-1], strict=False))
        yield from ((a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None)


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield (name, value) for one assignment. A tuple that is not written out gives its value to every name."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Attribute):
        yield target.attr, value
    elif isinstance(target, ast.Tuple | ast.List):
        exact = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        assigned = value.elts if exact and isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
        for inner, part in zip(target.elts, assigned, strict=True):
            yield from _targets(inner, part)
