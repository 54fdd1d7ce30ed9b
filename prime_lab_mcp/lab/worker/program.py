"""The zygote: preloads verifiers once and forks a supervised child for every environment that is to be loaded.

Started by path with the environment's own interpreter, so it knows nothing of `prime_lab_mcp`: standard library, its
sibling files, verifiers. File descriptor 0 is a socket to the server; what the server sends with a request are two more
sockets, one for the child and one for its supervisor. It ends when that socket ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

_V0_NAMES = (
    "Environment", "SingleTurnEnv", "MultiTurnEnv", "ToolEnv", "EnvGroup", "Rubric", "RubricGroup", "JudgeRubric",
    "MathRubric", "Parser", "XMLParser", "ThinkParser", "MaybeThinkParser", "load_environment",
)  # fmt: skip
_QUIET = 0.5


def sibling(name: str) -> ModuleType:
    """A file beside this one, under a name that no environment can shadow."""
    known = f"_prime_lab_worker_{name}"
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module
    spec.loader.exec_module(module)
    return module


def take_over() -> socket.socket:
    """The server's socket off descriptor 0; standard input is empty and standard output is standard error from here."""
    server = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    kept = {0, 1, 2, server.fileno()}
    for entry in os.listdir("/dev/fd"):
        if int(entry) not in kept:
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


class Zygote:
    def __init__(self, server: socket.socket, api: str) -> None:
        self.server = server
        self.api = api
        self.supervisor = sibling("supervisor")
        self.children: set[int] = set()
        self.watchdog = set(self.supervisor.descendants())

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
        self.supervisor.kill_descendants()

    def fork(self, fds: list[int]) -> None:
        """A supervisor with its child behind the two sockets that came with the request."""
        if len(fds) != 2:
            for fd in fds:
                os.close(fd)
            return
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                self.server.close()
                self.supervisor.supervise(channel=fds[0], control=fds[1], api=self.api)
                code = 0
            finally:
                os._exit(code)
        self.children.add(pid)
        for fd in fds:
            os.close(fd)
        self.say({"forked": pid})

    def reap(self) -> None:
        """Collect ended supervisors. One that was killed may have left processes behind: they came to us."""
        broken = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                broken = broken or (pid in self.children and status != 0)
                self.children.discard(pid)
        if broken:
            self.supervisor.kill_descendants(spare=self.children | self.watchdog)

    def say(self, message: dict[str, Any]) -> None:
        self.server.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Preload, say so, serve."""
    api = sys.argv[1]
    server = take_over()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    zygote = Zygote(server, api)
    zygote.supervisor.adopt_orphans()
    sibling("serve")
    try:
        ready = preload(api)
    except BaseException as error:
        zygote.say({"broken": f"{type(error).__name__}: {error}"[:2000]})
        os._exit(1)
    sibling(api)
    gc.collect()
    gc.freeze()
    zygote.say({"ready": ready})
    zygote.run()
    os._exit(0)


if __name__ == "__main__":
    sys.modules["_prime_lab_worker_program"] = sys.modules["__main__"]
    main()
