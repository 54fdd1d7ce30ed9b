"""Says which kind of surroundings a full name reads: files, the network, processes, timers, the interpreter.

A module that can read surroundings (os, sys, time, ...), and one that is known in part (numpy, datetime, ...), counts
with all its names except for those that known_modules.py lists as harmless: a list of harmful names could never be
complete. The names here are those that need another kind than their module.
"""

from __future__ import annotations

import sys

from prime_lab_mcp.lab.rewards.known_modules import HARMLESS_MODULES, HARMLESS_NAMES, may_be_part

FILES = "files and folders"
TEMPORARY = "temporary files"
NETWORK = "the network"
PROCESSES = "processes"
ARGUMENTS = "the arguments of the process"
ARGUMENTS_IF_NONE_GIVEN = "the arguments of the process where its caller gives none"
TIMERS = "timers"
INTERPRETER = "the state of the interpreter"
STATE = "what earlier calls left"
KEPT = "what it keeps between calls, which the reading cannot tell unchanged"
LOOKUP = "names that are looked up at run time"
MACHINE = "the machine"
INSTALLED = "which modules are installed"
SAMPLING = "how a rollout was sampled"
PLACE = "where its code lies"
UNLISTED = "whatever a module reads that is not known here"

_REACHING = {
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
    "shelve": LOOKUP,
    "mimetypes": FILES,
    "http.cookies": TIMERS,
    "filecmp": FILES,
    "zipimport": LOOKUP,
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
    "torch.multiprocessing": PROCESSES,
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
    "dateutil": TIMERS,
    "dateutil.parser": TIMERS,
    "cachetools": TIMERS,
    "faker": TIMERS,
    "click": ARGUMENTS_IF_NONE_GIVEN,
    "gettext": FILES,
    "packaging.markers": MACHINE,
    "packaging.tags": MACHINE,
    "chess.engine": PROCESSES,
    "nltk.corpus": FILES,
    "PIL.ImageGrab": MACHINE,
    "scipy.io": FILES,
    "sklearn.datasets": FILES,
    "six.moves": LOOKUP,
    "rich.live": TIMERS,
    "rich.progress": TIMERS,
    "rich.status": TIMERS,
}
"""Modules that can read surroundings, each with the kind of these surroundings."""
PARTLY_KNOWN = {
    "asyncio": INTERPRETER,
    "asyncio.subprocess": PROCESSES,
    "concurrent.futures": PROCESSES,
    "datetime": TIMERS,
    "datetime.date": TIMERS,
    "datetime.datetime": TIMERS,
    "datasets": FILES,
    "importlib": INTERPRETER,
    "jinja2": LOOKUP,
    "string": LOOKUP,
    "sympy": LOOKUP,
    "sympy.core.sympify": LOOKUP,
    "types": LOOKUP,
    "unittest": LOOKUP,
    "typing": LOOKUP,
    "typing_extensions": LOOKUP,
    "random": INTERPRETER,
    "functools": INTERPRETER,
    "pydantic": LOOKUP,
    "pydantic_core": LOOKUP,
    "numpy": UNLISTED,
    "pandas": UNLISTED,
    "transformers": MACHINE,
}
"""Modules that honest rewards use, each with the kind of what their names read that are not listed as harmless."""
MODULES = _REACHING | PARTLY_KNOWN
_NAMES = {
    "open": FILES,
    "io.open": FILES,
    "io.open_code": FILES,
    "io.FileIO": FILES,
    "codecs.open": FILES,
    "tempfile.gettempdir": FILES,
    "tempfile.gettempdirb": FILES,
    "tempfile.tempdir": FILES,
    "configparser.ConfigParser": FILES,
    "configparser.RawConfigParser": FILES,
    "configparser.SafeConfigParser": FILES,
    "contextlib.chdir": FILES,
    "shlex.shlex": FILES,
    "gzip.compress": TIMERS,
    "six.exec_": LOOKUP,
    "six.get_function_closure": LOOKUP,
    "six.get_function_code": LOOKUP,
    "six.get_function_globals": LOOKUP,
    "markdown.markdownFromFile": FILES,
    "inspect.getclosurevars": LOOKUP,
    "unicodedata.unidata_version": MACHINE,
    "hashlib.algorithms_available": MACHINE,
    "zlib.ZLIB_RUNTIME_VERSION": MACHINE,
    "lxml.etree.DTD": FILES,
    "lxml.etree.RelaxNG": FILES,
    "lxml.etree.Schematron": FILES,
    "lxml.etree.XInclude": FILES,
    "lxml.etree.XMLSchema": FILES,
    "lxml.etree.XSLT": FILES,
    "verifiers.v1.TimeSpan": TIMERS,
    "verifiers.v1.TimeSplit": TIMERS,
    "verifiers.v1.Timing": TIMERS,
    "verifiers.v1.trace.TimeSpan": TIMERS,
    "verifiers.v1.trace.TimeSplit": TIMERS,
    "verifiers.v1.trace.Timing": TIMERS,
    "verifiers.v1.capture_patch": PROCESSES,
    "verifiers.v1.import_environment": LOOKUP,
    "verifiers.v1.import_harness": LOOKUP,
    "verifiers.v1.import_judge": LOOKUP,
    "verifiers.v1.import_taskset": LOOKUP,
    "verifiers.v1.resolve_client": NETWORK,
    "verifiers.v1.VersionInfo": MACHINE,
    "tenacity.RetryCallState": TIMERS,
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
    "argparse.FileType": FILES,
    "threading.Timer": TIMERS,
    "rich.get_console": MACHINE,
    "mpmath.timing": TIMERS,
    "nltk.data": LOOKUP,
    "numpy.load": FILES,
    "numpy.fromfile": FILES,
    "numpy.loadtxt": FILES,
    "numpy.genfromtxt": FILES,
    "numpy.memmap": FILES,
    "logging.FileHandler": FILES,
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
    "pickle.whichmodule": INTERPRETER,
    "warnings.filterwarnings": INTERPRETER,
    "unittest.defaultTestLoader": LOOKUP,
    "xml.etree.ElementInclude": FILES,
    "xml.sax.saxutils.prepare_input_source": FILES,
    "numpy.rec.fromfile": FILES,
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
    "abc._get_dump": INTERPRETER,
    "pandas.eval": LOOKUP,
    "doctest.testmod": LOOKUP,
    "importlib.reload": LOOKUP,
    "xml.dom.minidom.parse": FILES,
    "xml.dom.pulldom.parse": FILES,
    "xml.sax.parse": FILES,
    "transformers.pipeline": FILES,
    "torch.load": LOOKUP,
    "torch.jit.load": LOOKUP,
    "yaml.load": LOOKUP,
    "yaml.load_all": LOOKUP,
    "yaml.unsafe_load_all": LOOKUP,
    "yaml.full_load_all": LOOKUP,
    "yaml.unsafe_load": LOOKUP,
    "yaml.full_load": LOOKUP,
    "input": INTERPRETER,
    "breakpoint": INTERPRETER,
    "builtins.input": INTERPRETER,
    "builtins.breakpoint": INTERPRETER,
    "asyncio.new_event_loop": TIMERS,
    "numpy.datetime64": TIMERS,
    "pandas.Timestamp": TIMERS,
    "pandas.to_datetime": TIMERS,
    "toml.load": FILES,
    "lxml.etree.parse": FILES,
    "lxml.html.parse": FILES,
    "PIL.Image.open": FILES,
    "PIL.ImageFont.truetype": FILES,
    "io.text_encoding": MACHINE,
    "unittest.main": ARGUMENTS,
    "xml.etree.ElementTree.ElementTree": FILES,
    "lxml.etree.iterparse": FILES,
    "datasets.Dataset.from_csv": FILES,
    "datasets.Dataset.from_json": FILES,
    "datasets.Dataset.from_parquet": FILES,
    "datasets.Dataset.from_text": FILES,
    "datasets.Dataset.load_from_disk": FILES,
    "yaml.UnsafeLoader": LOOKUP,
    "yaml.CUnsafeLoader": LOOKUP,
    "yaml.add_constructor": INTERPRETER,
    "yaml.add_multi_constructor": INTERPRETER,
    "dis.code_info": PLACE,
    "encodings.aliases": INTERPRETER,
    "regex.cache_all": STATE,
    "scipy.show_config": MACHINE,
    "spacy.prefer_gpu": MACHINE,
    "spacy.require_gpu": MACHINE,
    "more_itertools.time_limited": TIMERS,
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
_OS_PROCESSES = ("fork", "exec", "spawn", "wait", "kill", "get", "system", "popen", "pidfd", "posix_spawn", "times")


def outside_kind(name: str) -> str:
    """Return the kind of surroundings that a resolved name reads; empty if it reads none."""
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("asyncio.") and (loop := next((_LOOPS[p] for p in name.split(".") if p in _LOOPS), "")):
        return loop
    if name.startswith("pandas.read_") or name.startswith("networkx.read_"):
        return FILES
    if name.endswith(".register") and name.startswith(("collections.abc.", "numbers.", "abc.")):
        return STATE  # a class that an earlier call registered is one of them for every later call
    module, last = _nearest(name)
    if not module or is_listed_module(name) or last.endswith("Error"):
        return ""
    if module in HARMLESS_MODULES:
        inside = name != f"{module}.{last}" and may_be_part(module, last)
        return UNLISTED if inside or _is_borrowed(module, last) else ""
    if last in HARMLESS_NAMES.get(module, ()):
        return ""
    if last.isupper() and module in ("signal", "sqlite3", "zipfile", "ssl", "gzip", "lzma"):
        return ""
    if (module, last[:1].isupper()) in (("os", True), ("socket", True), ("subprocess", True)) and last != "Popen":
        return ""  # constants
    if module == "os" and last.startswith(_OS_PROCESSES):
        return PROCESSES
    return MODULES[module]


def _is_borrowed(module: str, name: str) -> bool:
    """Whether a name of a module of the standard library is another module, which the module imports for itself."""
    own = {*module.split("."), "abc", *(("operator",) if module == "ast" else ())}
    top = module.partition(".")[0]
    return {top, name} <= sys.stdlib_module_names and name not in own


def is_known(module: str) -> bool:
    """Whether something is known of a module: the module or one above it is harmless, or known in part."""
    above, part = _nearest(module)
    return is_listed_module(module) or (bool(above) and not (module != f"{above}.{part}" and may_be_part(above, part)))


def is_known_module(module: str) -> bool:
    """The same of what is a module for certain, as in `import tqdm.utils`: what it holds has to be known."""
    return is_known(f"{module}.*")


def is_listed_module(name: str) -> bool:
    """Whether a full name is that of a module of the lists."""
    return name in HARMLESS_MODULES or name in MODULES


def _nearest(name: str) -> tuple[str, str]:
    """Return the nearest module of the lists above a full name, and the name that is read of the module."""
    module, _, last = name.rpartition(".")
    while module and not is_listed_module(module):
        module, _, last = module.rpartition(".")
    return module, last
