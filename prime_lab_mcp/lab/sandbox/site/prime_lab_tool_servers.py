"""Starts the local tool servers of verifiers by forking a process that has imported verifiers already.

verifiers 0.4 starts a process for each tool server of each rollout (v1/mcp/launch.py, `serve_in_runtime`): `python -m
MODULE`, which imports verifiers for about four seconds of processor time and keeps about 300 MB. `start_by_forking`
makes runtimes of local processes fork such servers instead. The forking process holds no module of an environment, so
each server imports its module anew and shares no state with another server, as a process of its own does.

The first server starts the forking process, which ends with the process that started it. Without pidfds (Linux 5.3),
and where the forking process cannot start, servers start as verifiers starts them. Standard library only, because the
module is loaded into processes that have no other module of this server.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("!I")
_START_SECONDS = 120.0
"""Time limit of the first import of verifiers, which a cold disk and a busy machine make long."""
_FORK_SECONDS = 30.0
_LISTEN_SECONDS = 2.0
"""verifiers looks for a port once a second. A server that listens within this time is not waited for that long."""
_PRELOADED = (
    "verifiers.v1",
    "verifiers.v1.mcp.server",
    "verifiers.v1.mcp.toolset",
    "mcp.server.mcpserver",
    "mcp.server.transport_security",
    "uvicorn",
    "httpx",
)


class ForkedProcess:
    """A process that is not a child of this one, with the part of `asyncio.subprocess.Process` that runtimes use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    @property
    def returncode(self) -> int | None:
        """None while the process runs, then -1: the status of a process that is no child is unknown."""
        if self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            os.close(self._descriptor)
            self._descriptor = None
        return None if self._descriptor is not None else -1

    async def wait(self) -> int:
        if self.returncode is None and (descriptor := self._descriptor) is not None:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
        return -1

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


class ToolServerForks:
    """The forking process of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._failed = not hasattr(os, "pidfd_open")
        self._owner = os.getpid()

    def fork(self, module: str, environment: Mapping[str, str], folder: str, log: int) -> ForkedProcess | None:
        """Start `python -m MODULE` in a folder, in a process group of its own. None if no process can be forked.

        The output of the process is appended to the file descriptor `log`.
        """
        with self._lock:
            if self._owner != os.getpid():  # this process was forked itself and must not use its parent's connection
                self.__init__()  # type: ignore[misc]
            if self._failed:
                return None
            try:
                connection = self._socket = self._socket or _start_forking_process()
                request = json.dumps({"module": module, "environment": dict(environment), "folder": folder}).encode()
                socket.send_fds(connection, [_LENGTH.pack(len(request))], [log])
                connection.sendall(request)
                return ForkedProcess(int(_LENGTH.unpack(_exactly(connection, _LENGTH.size))[0]))
            except (OSError, EOFError):
                self._failed = True
                if self._socket is not None:
                    self._socket.close()
                return None


def _start_forking_process() -> socket.socket:
    """Start the forking process, and wait until it has imported verifiers. Returns the connection to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={name: value for name, value in os.environ.items() if "API_KEY" not in name.upper()},
            start_new_session=True,
        )
    ours.settimeout(_START_SECONDS)
    try:
        _exactly(ours, _LENGTH.size)
    except BaseException:
        ours.close()
        raise
    ours.settimeout(_FORK_SECONDS)
    return ours


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError
        received += part
    return received


# --- in the process that starts tool servers ---------------------------------------------------------------------

_forks = ToolServerForks()


def start_by_forking(module: types.ModuleType) -> None:
    """Make `SubprocessRuntime` of `verifiers.v1.runtimes.subprocess` fork the tool servers that it starts."""
    runtime_class: Any = vars(module).get("SubprocessRuntime")
    start = getattr(runtime_class, "run_background", None)
    if start is None or not hasattr(runtime_class, "process_env"):
        return

    @functools.wraps(start)
    async def run_background(self: Any, argv: Sequence[str], env: Mapping[str, str], log: str) -> None:
        if len(argv) != 3 or list(argv[:2]) != [sys.executable, "-m"] or "MCP_PORT_FILE" not in env:
            await start(self, argv, env, log)
            return
        environment = {name: value for name, value in os.environ.items() if "API_KEY" not in name.upper()}
        environment.update(self.process_env(env))
        with (self.workdir / log).open("wb") as file:
            forked = await asyncio.to_thread(_forks.fork, argv[2], environment, str(self.workdir), file.fileno())
        if forked is None:
            await start(self, argv, env, log)
            return
        self._background.append(forked)
        await _until_listening(env["MCP_PORT_FILE"], forked)

    runtime_class.run_background = run_background


async def _until_listening(port_file: str, process: ForkedProcess) -> None:
    """Wait until a server answers at the port that it wrote into a file, or has ended, or takes long."""
    deadline = time.monotonic() + _LISTEN_SECONDS
    while time.monotonic() < deadline and process.returncode is None:
        with contextlib.suppress(OSError, ValueError):
            port = int(Path(port_file).read_text(encoding="ascii"))
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


# --- in the forking process --------------------------------------------------------------------------------------


def _requests(connection: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request. Returns the request in that process, and None once the connection is closed."""
    children: set[int] = set()
    while True:
        children -= _ended()
        if not select.select([connection], [], [], 1.0)[0]:
            continue
        try:
            head, log, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
            head += _exactly(connection, _LENGTH.size - len(head))
            request = json.loads(_exactly(connection, _LENGTH.unpack(head)[0]))
        except (OSError, EOFError):
            break
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            connection.close()
            for descriptor in (1, 2):
                os.dup2(log[0], descriptor)
            os.close(log[0])
            return dict(request)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # before the answer, so that whoever gets it can signal the group
        os.close(log[0])
        children.add(pid)
        connection.sendall(_LENGTH.pack(pid))
    for pid in children - _ended():
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    return None


def _ended() -> set[int]:
    """Reap the children that have ended."""
    ended: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.add(pid)
    return ended


def _become(request: Mapping[str, Any], own: Sequence[str]) -> None:
    """Give this process the environment variables, folder and module path of `python -m`, and run the module.

    `own` is the module path without that of the variable PYTHONPATH.
    """
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    tempfile.tempdir = None
    named = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [request["folder"], *named, *own]
    sys.argv[:] = [request["module"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def main(descriptor: int) -> None:
    """Import verifiers, then fork. Returns in a forked process after its module has run, or at the end."""
    connection = socket.socket(fileno=descriptor)
    # The folders of PYTHONPATH hold the environment, and Python adds the folder of this file.
    named = {part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part}
    own = [part for part in sys.path[1:] if part not in named]
    sys.path[:] = own
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    connection.sendall(_LENGTH.pack(os.getpid()))
    request = _requests(connection)
    if request is not None:
        _become(request, own)


if __name__ == "__main__":
    main(int(sys.argv[1]))
