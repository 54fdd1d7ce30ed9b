"""The zygote's program: imports verifiers once and forks a supervised child for every environment to be loaded.

File descriptor 0 is a socket to the server. A request of the server carries two more sockets, one for the child and one
for its supervisor. The process ends when the server's end of descriptor 0 closes.

Every module of this package is imported before the first fork, so a child reads none of them while foreign code runs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from typing import Any

from . import confinement, request_loop, supervisor

_V0_NAMES = (
    "Environment",
    "SingleTurnEnv",
    "MultiTurnEnv",
    "ToolEnv",
    "EnvGroup",
    "Rubric",
    "RubricGroup",
    "JudgeRubric",
    "MathRubric",
    "Parser",
    "XMLParser",
    "ThinkParser",
    "MaybeThinkParser",
    "load_environment",
)
_QUIET = 0.5
PORTS = "PRIME_LAB_PORTS"
"""Variable with the TCP ports that children may connect to, as JSON; empty where there are no rules for ports."""


def take_over() -> socket.socket:
    """Move the server's socket away from descriptor 0. Standard input becomes empty, output goes to standard error."""
    server = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    needed = {0, 1, 2, server.fileno()}
    for entry in os.listdir("/dev/fd"):
        if int(entry) not in needed:
            with contextlib.suppress(OSError):
                os.close(int(entry))
    return server


def preload(api: str) -> dict[str, Any]:
    """Import what every environment of this generation imports first."""
    started = time.monotonic()
    if api == "v1":
        importlib.import_module("verifiers.v1")
    verifiers = importlib.import_module("verifiers")
    if api == "v0":
        for name in _V0_NAMES:
            with contextlib.suppress(Exception):
                getattr(verifiers, name)
        if not hasattr(verifiers, "Rubric"):
            raise ImportError(f"verifiers {getattr(verifiers, '__version__', '?')} has no v0 API")
    return {
        "verifiers": getattr(verifiers, "__version__", None),
        "python": ".".join(map(str, sys.version_info[:3])),
        "seconds": time.monotonic() - started,
    }


class ForkServer:
    """Forks on request, and collects the supervisors that ended."""

    def __init__(self, server: socket.socket, api: str) -> None:
        self.server = server
        self.api = api
        self.children: set[int] = set()
        self.watchdog = set(supervisor.descendants())

    def run(self) -> None:
        """Answer requests until the server's end is gone."""
        idle = True
        while True:
            readable, _, _ = select.select([self.server], [], [], _QUIET if idle else 5.0)
            self.reap()
            if readable:
                data, fds, _, _ = socket.recv_fds(self.server, 4096, 8)
                if not data:
                    break
                self.fork(fds)
            elif idle:
                # Costs a second and helps most environments, so it waits until nobody does.
                idle = False
                with contextlib.suppress(Exception):
                    importlib.import_module("datasets")
                gc.freeze()
        supervisor.kill_descendants()

    def fork(self, fds: list[int]) -> None:
        """Fork a supervisor, which forks a child; each has one of the two sockets of the request."""
        if len(fds) != 2:
            for fd in fds:
                os.close(fd)
            return
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                self.server.close()
                supervisor.supervise(
                    channel=fds[0],
                    control=fds[1],
                    serve=lambda fd: request_loop.run(fd, self.api),
                    keep=confinement.descriptors(),
                )
                code = 0
            finally:
                os._exit(code)
        self.children.add(pid)
        for fd in fds:
            os.close(fd)
        self.send({"forked": pid})

    def reap(self) -> None:
        """Collect supervisors that ended. This process adopts what a killed supervisor left behind, and kills it."""
        broken = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                broken = broken or (pid in self.children and status != 0)
                self.children.discard(pid)
        if broken:
            supervisor.kill_descendants(spare=self.children | self.watchdog)

    def send(self, message: dict[str, Any]) -> None:
        self.server.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Import verifiers, report that, and answer until the server ends. Never returns."""
    api = sys.argv[1]
    server = take_over()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    forks = ForkServer(server, api)
    supervisor.adopt_orphans()
    try:
        ready = preload(api)
    except BaseException as error:
        forks.send({"broken": f"{type(error).__name__}: {error}"[:2000]})
        os._exit(1)
    ports = os.environ.pop(PORTS, "")
    confinement.kernel().not_dumpable()
    if ports:
        confinement.prepare(json.loads(ports))
    gc.collect()
    gc.freeze()
    forks.send({"ready": ready})
    forks.run()
    os._exit(0)
