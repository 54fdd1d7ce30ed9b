"""The fork server: holds imported programs, and runs each call of one in a process forked from there.

    python server.py start ROOT           starts the servers that are wanted; ends them when standard input closes
    python server.py KIND ROOT            serves one kind of program; ends when standard input closes

Three processes belong to a call: the one that was started (hook.py), a keeper, and the program. The program is forked
with nothing imported that read the environment while it was imported, and has a session of its own. When the started
process ends first, the kernel kills the program's group at that moment, and the keeper whatever else it started.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import json
import marshal
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PRELOADED = {
    "prime": ("prime_cli.main", "httpcore", "prime_cli.commands.env", "prime_cli.utils.training_compiler"),
    "verifiers": (
        "verifiers.v1.cli.eval.main",
        "uvloop",
        "numpy",
        "pandas",
        "pyarrow",
        "aiohttp",
        "fsspec",
        "dill",
        "yaml",
        "mcp",
        "httpcore",
    ),
    "zygote": ("verifiers.v1", "datasets", "mcp", "httpcore", "anyio._backends._asyncio"),
    "datasets": ("pyarrow.dataset", "fsspec.registry", "pandas"),
}
IMPORTED_ANEW = {
    "prime": (),
    "verifiers": ("verifiers",),
    "zygote": ("verifiers", "datasets", "huggingface_hub"),
    "datasets": ("datasets", "huggingface_hub"),
}
"""Packages that read HOME, addresses or the terminal's width while they are imported."""
V0_NAMES = (
    "Environment",
    "SingleTurnEnv",
    "MultiTurnEnv",
    "ToolEnv",
    "EnvGroup",
    "Rubric",
    "JudgeRubric",
    "MathRubric",
)
"""Names that an older verifiers imports when they are first used."""
RELOADED = {"prime": ("prime_cli.core.config",)}
"""Modules that read HOME while they are imported, in packages that otherwise read nothing but the variables which
hook.py names: these modules are imported anew, and their values take the place of the older ones everywhere."""
_SUBREAPER = 36
_F_SETSIG = 10
_WATCHED = 200


def start(root: str) -> None:
    """Start a server for each kind that is asked for."""
    place = Path(root)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(place / "start.sock"))
    listening.listen(64)
    servers: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        readable, _, _ = select.select([listening, 0], [], [])
        if 0 in readable:
            break
        client, _ = listening.accept()
        with client, contextlib.suppress(OSError):
            key = client.recv(1000).decode()
            if key not in servers:
                servers[key] = _server(place, key)
            client.send(b"+")
    for server in servers.values():
        assert server.stdin is not None
        server.stdin.close()
    for server in servers.values():
        server.wait()
    shutil.rmtree(place, ignore_errors=True)


def _server(place: Path, key: str) -> subprocess.Popen[bytes]:
    import _warm_hook  # of this environment alone

    kind, read = _warm_hook.variables_of(key)
    own = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")}
    own |= {"HOME": str(place / "home"), "PYTHONUTF8": "1", "COLUMNS": "80", "PRIME_DISABLE_VERSION_CHECK": "1"}
    # One thread, so that forking is safe.
    own |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    own |= {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
    for name in (name.decode() for name in _warm_hook.READ_AT_IMPORT.get(kind, ())):
        own.pop(name, None)
    own |= read
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(place / f"{key}.sock"))
    listening.listen(256)
    with listening, (place / f"{key}.log").open("wb") as log:
        return subprocess.Popen(
            [_python(place, kind), "-P", __file__, kind, str(listening.fileno())],
            env=own,
            cwd=place,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(listening.fileno(),),
        )


def _python(place: Path, kind: str) -> str:
    """The Python of a kind of program: that of the session, or the one of the interpreter that `@` names."""
    _, _, older = kind.partition("@")
    return str(os.readlink(place / "older" / older) + "/bin/python" if older else place / "bin" / "python")


def serve(kind: str, listening: socket.socket) -> dict[str, Any] | None:
    """Fork a keeper for each call. Returns in the process that is to be a program, with its request."""
    while True:
        readable, _, _ = select.select([listening, 0], [], [], 5.0)
        if 0 in readable:
            return None
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if readable:
            client, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                return keep(client)
            client.close()


def preload(kind: str) -> None:
    """Import the programs with what they need, and forget what depends on the environment."""
    Path(os.environ["HOME"]).mkdir(exist_ok=True)
    kind, _, older = kind.partition("@")
    for name in PRELOADED[kind] if not older else ("pyarrow.dataset", "fsspec.registry"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if older:
        _import_older_verifiers(kind)
    elif kind == "datasets":
        with _marks_of_datasets_removed():
            importlib.import_module("datasets")
    anew = IMPORTED_ANEW["zygote" if older else kind]
    for name in [n for n in sys.modules if n.split(".")[0] in anew]:
        del sys.modules[name]
    if threading.active_count() > 1:
        raise RuntimeError(f"something that {kind} imports starts threads: {threading.enumerate()}")
    if kind == "prime":
        _build_commands_once()
        _read_certificates_once()
    gc.collect()
    gc.freeze()


def _import_older_verifiers(kind: str) -> None:
    """Import an older verifiers with what it needs."""
    script = Path(sys.prefix, "bin", "vf-eval")
    found = re.search(r"^from (\S+) import", script.read_text("utf-8"), re.M) if script.is_file() else None
    with _marks_of_datasets_removed():
        for name in ("verifiers", "datasets", found[1] if kind == "verifiers" and found else "verifiers"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        for name in V0_NAMES:
            with contextlib.suppress(Exception):
                getattr(sys.modules["verifiers"], name)


@contextlib.contextmanager
def _marks_of_datasets_removed() -> Iterator[None]:
    """`datasets`, imported in the block, leaves marks in other packages, with which it cannot be imported anew."""
    registry = importlib.import_module("fsspec.registry")._registry
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)
    features = sys.modules.get("datasets.features.features")
    for name in [n for n in vars(features or types) if n.startswith("Array") and n.endswith("ExtensionType")]:
        with contextlib.suppress(KeyError):
            importlib.import_module("pyarrow").unregister_extension_type(f"datasets.features.features.{name}")


def _build_commands_once() -> None:
    """The commands of `prime` follow from its code and from variables that all calls of this server have in common."""
    import typer.main

    app = importlib.import_module("prime_cli.main").app
    build, command = typer.main.get_command, typer.main.get_command(app)
    typer.main.get_command = lambda asked: command if asked is app else build(asked)


def _read_certificates_once() -> None:
    """An HTTP client reads the list of authorities, which no test's connection needs, for 30 ms."""
    import httpx
    import httpx._transports.default

    create, context = httpx.create_ssl_context, httpx.create_ssl_context()

    def created(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        given = verify is not True or cert is not None or {"SSL_CERT_FILE", "SSL_CERT_DIR"} & set(os.environ)
        return create(verify, cert, trust_env) if given else context

    httpx._transports.default.create_ssl_context = created


def reload(kind: str) -> None:
    """Import the modules anew that read HOME, and give their values to every module that holds the older ones."""
    for name in RELOADED.get(kind, ()):
        module = sys.modules[name]
        before = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == name}
        importlib.reload(module)
        after = {id(value): getattr(module, key) for key, value in before.items()}
        for other in [m for n, m in sys.modules.items() if n.split(".")[0] == name.split(".")[0]]:
            for key, value in list(vars(other).items()):
                if id(value) in after:
                    setattr(other, key, after[id(value)])


def keep(client: socket.socket) -> dict[str, Any] | None:
    """Fork the program and see it end. Returns its request in the program, nothing in the keeper."""
    header, fds, _, _ = socket.recv_fds(client, 8, 8)
    if len(fds) != 4:
        os._exit(1)
    size, data = int.from_bytes(header, "little"), b""
    while len(data) < size:
        data += client.recv(size - len(data))
    account = _account(client)
    os.setsid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    program = os.fork()
    if program == 0:
        client.close()
        _become(fds)
        return dict(marshal.loads(data))
    for fd in fds[:3]:
        os.close(fd)
    for fd in (0, 1, 2):
        os.close(fd)
    ended = _watch(program, client, fds[3])
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    _kill_descendants()
    if account is not None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        with account.open("a", encoding="ascii") as file:
            file.write(f"{used.ru_utime + used.ru_stime:.3f}\n")
    with contextlib.suppress(OSError):
        client.send(ended.to_bytes(4, "little", signed=True))
    os._exit(0)


def _account(client: socket.socket) -> Path | None:
    """The file with the CPU seconds of the test process that started this program, if one of its ancestors is one."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, place = int.from_bytes(credentials[:4], sys.byteorder), Path.cwd()
    while pid > 1:
        account = place / "accounts" / str(pid)
        if account.exists():
            return account
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        pid = int(stat.rpartition(")")[2].split()[1])
    return None


def _become(fds: list[int]) -> None:
    """Take the descriptors and a session; from here on the program dies with the process that was started."""
    os.setsid()
    watched = fds[3]
    fcntl.fcntl(watched, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(watched, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(watched, fcntl.F_SETFL, fcntl.fcntl(watched, fcntl.F_GETFL) | fcntl.FASYNC)
    ready = select.poll()
    ready.register(watched, 0)
    if ready.poll(0):
        os._exit(1)
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.closerange(3, 1024)


def _watch(program: int, client: socket.socket, watched: int) -> int:
    """Pass signals on until the program has ended; how it ended, as in `os.waitstatus_to_exitcode`."""
    ended = os.pidfd_open(program)
    events = select.poll()
    events.register(ended, select.POLLIN)
    events.register(watched, 0)
    events.register(client, select.POLLIN)
    while True:
        ready = {fd for fd, _ in events.poll(5000)}
        if ended in ready:
            return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        if watched in ready:
            return -signal.SIGKILL
        if client.fileno() in ready:
            for number in client.recv(16):
                signal.pidfd_send_signal(ended, number)


def _kill_descendants() -> None:
    """Kill what the program left behind outside its group: orphans come to this process."""
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def run(kind: str, request: dict[str, Any]) -> None:
    """What `python SCRIPT ARGUMENT...` does from its script on, or `python -c TEXT ARGUMENT...` from its text on."""
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environb.update(request["environ"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    tempfile.tempdir = None  # Asked for while this process was prepared, under other variables.
    argv = request["argv"]
    safe = argv[0] == "-P"
    script, *arguments = argv[1:] if safe else argv
    text = arguments.pop(0) if script == "-c" else None
    sys.orig_argv = [sys.executable, *argv]
    sys.argv = [script, *arguments]
    # confine.py runs in the Python of the session, so what it sends is not about an older interpreter that it starts.
    older = "@" in kind and request["confinement"] is not None
    path = sys.path if older else request["path"]
    sys.path[:] = [*([] if safe else ["" if text else os.path.dirname(script)]), *path]
    if request["confinement"] is not None:
        program, policy = request["confinement"]
        # confine.py runs isolated, the program that it starts does not.
        first = 0 if safe else 1
        sys.path[first:first] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        confine(program, json.loads(policy))
    sys.dont_write_bytecode = not request["bytecode"]
    if not older:
        sys.executable, sys.prefix, sys.exec_prefix = request["prefix"]  # as this interpreter was called
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    reload(kind)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, **({} if text else {"__file__": script}))
    sys.modules["__main__"] = module
    if text:
        code = compile(text, "<string>", "exec", dont_inherit=True)
    else:
        code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    try:
        exec(code, module.__dict__)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        _exit(kind, 1)
    except SystemExit as end:
        if kind == "prime" and isinstance(end.code, int | None):
            _exit(kind, end.code or 0)
        raise
    _exit(kind, 0)


def _exit(kind: str, code: int) -> None:
    """End as the interpreter does. `prime` leaves out to free its memory, object by object, for 50 ms."""
    if kind != "prime":
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    os._exit(code & 0xFF)


def confine(program: str, policy: dict[str, Any]) -> None:
    """What confine.py does before it starts a program."""
    module = types.ModuleType("confine")
    exec(compile(Path(program).read_bytes(), program, "exec", dont_inherit=True), module.__dict__)
    module.set_limits(module._limits_of(policy))
    module.confine(policy)
    sys.modules.pop("sitecustomize", None)  # Debian's Python has one of its own, and this process has imported that
    site = importlib.util.find_spec("sitecustomize")
    if site is not None and site.origin is not None and "/lab/sandbox/" in site.origin:
        importlib.import_module("sitecustomize")


def main() -> None:
    kind, where = sys.argv[1:]
    if kind == "start":
        start(where)
        return
    listening = socket.socket(fileno=int(where))
    preload(kind)
    request = serve(kind, listening)
    if request is not None:
        run(kind, request)


if __name__ == "__main__":
    main()
