"""The fork server: a process with verifiers imported that forks a supervised child for each environment to load.

The plain process (witness.py) forks the fork server, which has a socket to the server. Each request of the server
carries two more sockets, one for the child and one for the child's supervisor. The fork server ends when the server
closes its end of the socket.

All modules of this package are imported before the first fork. A child therefore reads no module of this package from
disk while environment code runs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
from typing import Any

from . import confinement, request_loop, supervisor

_IDLE_SECONDS = 0.5
"""Seconds without a request after which the fork server imports `datasets`."""
PORTS = "PRIME_LAB_PORTS"
"""The variable with the TCP ports that children may connect to, as JSON. It is empty if ports are not restricted."""


class ForkServer:
    """Forks children on request, and reaps supervisors that have ended."""

    def __init__(self, server: socket.socket, api: str) -> None:
        self.server = server
        self.api = api
        self.children: set[int] = set()
        self.watchdog = set(supervisor.descendants())

    def run(self) -> None:
        """Answer requests until the server closes its end of the socket."""
        idle = True
        while True:
            readable, _, _ = select.select([self.server], [], [], _IDLE_SECONDS if idle else 5.0)
            self.reap()
            if readable:
                data, fds, _, _ = socket.recv_fds(self.server, 4096, 8)
                if not data:
                    break
                self.fork(fds)
            elif idle:
                # The import takes a second and most environments need it. It runs while no request is waiting.
                idle = False
                with contextlib.suppress(Exception):
                    importlib.import_module("datasets")
                gc.freeze()
        supervisor.kill_descendants()

    def fork(self, fds: list[int]) -> None:
        """Fork a supervisor, which forks the child. Each of them gets one of the two sockets in `fds`."""
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
        """Reap supervisors that have ended. This process adopts and kills the processes of a supervisor that failed."""
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


def main(server: socket.socket, api: str, ready: dict[str, Any]) -> None:
    """Send `ready` to the server, then answer requests until the server ends. Never returns."""
    forks = ForkServer(server, api)
    supervisor.adopt_orphans()
    ports = os.environ.pop(PORTS, "")
    confinement.kernel().not_dumpable()
    if ports:
        confinement.prepare(json.loads(ports))
    gc.collect()
    gc.freeze()
    forks.send({"ready": ready})
    forks.run()
    os._exit(0)
