"""Forks a supervised child for every environment to be loaded, from a process that has verifiers imported.

The plain process (witness.py) forks this process, which has a socket to the server. A request of the server carries two
more sockets, one for the child and one for its supervisor. The process ends when the server's end of its socket closes.

Every module of this package is imported before the first fork, so a child reads none of them while foreign code runs.
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

_QUIET = 0.5
PORTS = "PRIME_LAB_PORTS"
"""Variable with the TCP ports that children may connect to, as JSON; empty where there are no rules for ports."""


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


def main(server: socket.socket, api: str, ready: dict[str, Any]) -> None:
    """Report `ready`, and answer until the server ends. Never returns."""
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
