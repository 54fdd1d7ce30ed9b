"""A child that answers with lines a test writes, over real sockets: what a process of environment code could send."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

from prime_lab_mcp.lab.sandbox.policy import Confinement
from prime_lab_mcp.lab.worker.channel import LINE, Channel
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.zygote import SupervisedChild, Zygote

from .conftest import own_interpreter

LOADED: dict[str, Any] = {
    "kind": "Sample",
    "tasks": 5,
    "infinite": False,
    "turns": False,
    "container": True,
    "solutions": True,
    "rewards": [],
    "fields": [],
    "system_prompt": None,
    "judges": [],
    "seconds": 0.1,
}
SCORED: dict[str, Any] = {
    "reward": 1.0,
    "components": {},
    "metrics": {},
    "errors": [],
    "problems": [{"code": "wrote-files", "detail": "/tmp/x"}],
    "judges": [],
    "ms": 1.0,
}

Answer = Callable[[dict[str, Any]], Iterable[object]] | Literal["never reads", "has ended"]
"""From a request to the lines of the reply. A mapping gets the id of the request; bytes are written as they are. The
texts are children that never read, and that have closed their socket already."""


class ScriptedZygote:
    """Stands in the place of a zygote: `fork` gives a child whose lines come from `answer`. `requests` came to it."""

    def __init__(self, folder: Path, answer: Answer, limit: int = LINE) -> None:
        self.interpreter = own_interpreter()
        self.requests: list[dict[str, Any]] = []
        self.closed = False
        self.confinement: Confinement | None = None
        self._folder, self._answer, self._limit = folder, answer, limit
        self._ends: list[socket.socket] = []

    async def fork(self, *, witness: bool = False) -> SupervisedChild:
        ours, theirs = socket.socketpair()
        control, supervisor = socket.socketpair()
        self._ends += [theirs, supervisor]
        if self._answer == "has ended":
            theirs.close()
        elif self._answer != "never reads":
            threading.Thread(target=self._serve, args=(theirs, self._answer), daemon=True).start()
        threading.Thread(target=_supervise, args=(supervisor,), daemon=True).start()
        scratch = self._folder / f"child{len(self._ends)}"
        scratch.mkdir()
        return SupervisedChild(Channel(ours, self._limit), Channel(control), scratch, {})

    async def close(self) -> None:
        self.closed = True

    def _serve(self, end: socket.socket, answer: Callable[[dict[str, Any]], Iterable[object]]) -> None:
        with suppress(OSError), end.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.requests.append(request)
                for reply in answer(request):
                    whole = {"id": request.get("id"), **reply} if isinstance(reply, Mapping) else reply
                    end.sendall(whole if isinstance(whole, bytes) else json.dumps(whole).encode() + b"\n")

    def end(self) -> None:
        for end in self._ends:
            end.close()


def _supervise(end: socket.socket) -> None:
    with suppress(OSError):
        end.recv(1)
        end.sendall(json.dumps({"code": 3, "signal": None, "flood": False, "output": "bye"}).encode() + b"\n")


def answering(**results: Iterable[object]) -> Answer:
    """Answer each operation with its lines; `load` with `LOADED` unless stated."""
    stated: dict[str, Iterable[object]] = {"load": [{"result": LOADED}], **results}
    return lambda request: stated[request["op"].replace("-", "_")]


@contextmanager
def worker_of(folder: Path, answer: Answer, limit: int = LINE, **more: Any) -> Iterator[tuple[Worker, ScriptedZygote]]:
    zygote = ScriptedZygote(folder, answer, limit)
    try:
        yield Worker(cast(Zygote, zygote), "key", folder, "v1", "sample", more), zygote
    finally:
        zygote.end()
