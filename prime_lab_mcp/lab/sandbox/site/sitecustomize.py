"""Adapts two libraries to a confined process, and records refusals by the kernel.

Python imports this module at its start, from PYTHONPATH. Standard library only.

`multiprocessing` and its copy in `datasets` let managers listen on Unix sockets, which are closed. Here they listen on
loopback instead. Processes that they spawn read the file of the program that spawns them, which is hidden from code in
a worker: they would end at their start, and a pool would start others for ever. Here they begin without it. verifiers
0.4 (v1/mcp/launch.py, `serve_in_runtime`) has a local tool server write its port to a file in /tmp, which is not
writable. Here the file is in the temporary folder. Tool servers are forked from a process that has imported verifiers
(prime_lab_tool_servers.py), instead of importing verifiers for each rollout. The proxy of a container
(v1/runtimes/docker, `_container_listener`) gets its listener through a Unix socket, which is closed. Here it listens on
loopback, and the broker of containers leads a port of the container there (lab/sandbox/containers).

Code often catches a refused file access or connection, and continues with wrong results. So `open`, `os.open` and
`socket.connect` write each refusal to code of the environment into the file that `NOTES` names, before they raise.
"""

from __future__ import annotations

import builtins
import errno
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PORT_FILE = "/tmp/vf-port-"


def _listen_on_loopback(module: types.ModuleType) -> None:
    vars(module)["default_family"] = "AF_INET"


def _spawn_without_program(module: types.ModuleType) -> None:
    """Let spawned processes begin without the program of this one, where the confinement hides its file."""
    prepare = vars(module)["get_preparation_data"]

    @functools.wraps(prepare)
    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        try:  # access(2) knows nothing of Landlock
            os.close(_open_file(data.get("init_main_from_path", os.devnull), os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            del data["init_main_from_path"]
        return data

    vars(module)["get_preparation_data"] = get_preparation_data


def _port_file_in_temporary_folder(module: types.ModuleType) -> None:
    serve = vars(module).get("serve_in_runtime")
    if not isinstance(serve, types.FunctionType) or _PORT_FILE not in serve.__code__.co_consts:
        return
    elsewhere = f"{tempfile.gettempdir()}/vf-port-"
    constants = tuple(elsewhere if constant == _PORT_FILE else constant for constant in serve.__code__.co_consts)
    local = types.FunctionType(
        serve.__code__.replace(co_consts=constants), serve.__globals__, serve.__name__, serve.__defaults__
    )
    local.__kwdefaults__ = serve.__kwdefaults__

    def serve_in_runtime(server: Any, runtime: Any, **options: Any) -> Any:
        return (local if runtime.type == "subprocess" else serve)(server, runtime, **options)

    vars(module)["serve_in_runtime"] = serve_in_runtime


def _fork_tool_servers(module: types.ModuleType) -> None:
    name = "prime_lab_tool_servers"
    if name not in sys.modules:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            return
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    vars(sys.modules[name])["start_by_forking"](module)


_CONTAINERS = "PRIME_LAB_CONTAINERS"
"""The variable with the port and the secret of the broker of containers."""
_NO_CALLBACKS = "PRIME_LAB_NO_CALLBACKS"
"""The variable that says that no program in a container calls back: the harness and the tools run in this process."""


def _listen_for_containers(module: types.ModuleType) -> None:
    runtime = vars(module).get("DockerRuntime")
    pass_listener = getattr(runtime, "_container_listener", None)
    if runtime is None or pass_listener is None:
        return  # the broker refuses the command that another version runs, and says which one

    async def _container_listener(self: Any) -> socket.socket:
        if self.engine != "podman" or not os.environ.get(_CONTAINERS):
            listener: socket.socket = await pass_listener(self)
            return listener
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        if os.environ.get(_NO_CALLBACKS):
            return listener
        opened = await vars(module)["cli"](
            self.engine, "prime-lab-listen", self._container, str(listener.getsockname()[1])
        )
        if opened.exit_code != 0:
            listener.close()
            raise vars(module)["SandboxError"](f"{self.engine} proxy listener failed: {opened.stderr.strip()}")
        return listener

    runtime._container_listener = _container_listener


_ADAPTED: dict[str, Callable[[types.ModuleType], None]] = {
    "multiprocessing.connection": _listen_on_loopback,
    "multiprocess.connection": _listen_on_loopback,
    "multiprocessing.spawn": _spawn_without_program,
    "multiprocess.spawn": _spawn_without_program,
    "verifiers.v1.runtimes.docker": _listen_for_containers,
    "verifiers.v1.mcp.launch": _port_file_in_temporary_folder,
    "verifiers.v1.runtimes.subprocess": _fork_tool_servers,
}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, adapt: Callable[[types.ModuleType], None]) -> None:
        self._loader = loader
        self._adapt = adapt

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        created: types.ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: types.ModuleType) -> None:
        self._loader.exec_module(module)
        self._adapt(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        adapt = _ADAPTED.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if adapt is not None else None
        if spec is not None and adapt is not None:
            spec.loader = _Loader(spec.loader, adapt)
        return spec


_READ_PATHS = frozenset({"verifiers", "datasets", "huggingface_hub", "transformers", "fsspec"})
"""Packages whose modules hold paths below HOME or of caches."""


def redirect(leads: Mapping[str, str]) -> None:
    """Replace old folders by new ones in modules that read their variables before this process was forked."""
    longest_first = sorted(leads, key=len, reverse=True)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _READ_PATHS:
            continue
        for attribute, value in list(vars(module).items()):
            if isinstance(value, str | pathlib.Path):
                text = str(value)
                old = next((lead for lead in longest_first if text == lead or text.startswith(f"{lead}/")), None)
                if old is not None:
                    setattr(module, attribute, type(value)(leads[old] + text[len(old) :]))


NOTES = "PRIME_LAB_REFUSED"
"""The variable with the path of the file of refusals. The file has one refusal on each line."""
_MOST_NOTES = 20
_open_file = os.open
_noted: set[str] = set()


def _noting(function: Callable[..., Any], notes: str, trees: tuple[str, ...], place: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except PermissionError as error:
            if error.errno in (errno.EACCES, errno.EPERM) and len(_noted) < _MOST_NOTES:
                _note(str(args[place])[:200] if len(args) > place else "", notes, trees)
            raise

    return call


def _note(what: str, notes: str, trees: tuple[str, ...]) -> None:
    """Append a refusal to the file, if code of the environment is among the callers."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(trees):
        frame = frame.f_back
    if frame is None or what in _noted:
        return
    _noted.add(what)
    try:
        written = _open_file(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(written, what.replace("\n", " ").encode("utf-8", "replace") + b"\n")
        os.close(written)
    except OSError:
        return


def note_refusals(notes: str, trees: tuple[str, ...]) -> None:
    """Record the refusals to code below `trees` in this process."""
    opened = _noting(io.open, notes, trees, 0)
    builtins.open = io.open = opened
    os.open = _noting(os.open, notes, trees, 0)
    socket.socket.connect = _noting(socket.socket.connect, notes, trees, 1)  # type: ignore[method-assign]


def install() -> None:
    """Adapt the libraries that are imported already, and the others when they are imported."""
    for name, adapt in _ADAPTED.items():
        if name in sys.modules:
            adapt(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


if __name__ == "sitecustomize":
    install()
    _own = os.path.dirname(os.path.abspath(__file__))
    _trees = tuple(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != _own)
    if os.environ.get(NOTES) and _trees:
        note_refusals(os.environ[NOTES], _trees)
