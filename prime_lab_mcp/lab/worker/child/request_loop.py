"""The child's side of the conversation: reads requests, asks the adapter, writes replies.

The process executes environment code, so the loop answers whatever that code raises and never trusts what it returns.
One JSON object per line. `score` answers one line per case, so that the server sees which case hangs.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial

from . import branches, coercion, environment, observer
from .adapter import Adapter, locate, stated_solutions
from .adapter_v0 import AdapterV0
from .adapter_v1 import AdapterV1
from .protocol import CaseRequest, Request, RescoreRequest, ScoreReply, ScoreRequest

IDLE = 1800.0
"""Seconds without a request after which a child ends by itself."""
_LINE = 24 << 20
_BROKEN_PIPE = 73
_LATE = 3
"""Cases of one request that may time out before the rest is left out; rewards/scorer.py has the same limit."""
_SLOW_MS = 2000.0
_SPENT_MS = 60_000.0
"""Total time for cases of one request that are slower than `_SLOW_MS`; after that, the rest is left out."""


class Refused(Exception):
    """The reply cannot be sent, because of the environment."""


def run(descriptor: int, api: str) -> int:
    """Answer requests until the server's end of the socket closes. Returns the exit code."""
    channel = socket.socket(fileno=descriptor)
    adapter: Adapter = AdapterV1() if api == "v1" else AdapterV0()
    while (line := _read(channel)) is not None:
        for reply in _answer(adapter, line):
            try:
                channel.sendall(reply)
            except OSError:
                return _BROKEN_PIPE
    _flush()
    return 0


_BUFFER = bytearray()


def _read(channel: socket.socket) -> bytes | None:
    while b"\n" not in _BUFFER:
        try:
            if not select.select([channel], [], [], IDLE)[0]:
                return None
            chunk = channel.recv(1 << 20)
        except (OSError, ValueError):
            return None
        if not chunk:
            return None
        _BUFFER.extend(chunk)
    line, _, rest = bytes(_BUFFER).partition(b"\n")
    _BUFFER[:] = rest
    return line


def _answer(adapter: Adapter, line: bytes) -> Iterator[bytes]:
    received = json.loads(line)
    request: Request = received
    number = received["id"]
    try:
        if request["op"] == "score" or request["op"] == "rescore":
            for case, result in enumerate(_score(adapter, request)):
                yield coercion.encode({"id": number, "case": case, "result": result})
                _flush()
            yield coercion.encode({"id": number, "result": None})
            return
        encoded = coercion.encode({"id": number, "result": _result(adapter, request)})
        if len(encoded) > _LINE:
            raise Refused(f"the answer has {len(encoded):,} bytes; {_LINE:,} can be passed on")
        yield encoded
    except GeneratorExit:
        raise
    except BaseException as error:
        yield coercion.encode({"id": number, "failed": environment.failure(error)})
    finally:
        _flush()


def _score(adapter: Adapter, request: ScoreRequest | RescoreRequest) -> Iterator[ScoreReply]:
    scorings: list[Callable[[], ScoreReply]]
    if request["op"] == "rescore":
        rescore, allowed = request, request["spent_ms"]
        scorings = [partial(adapter.rescore, stored, rescore) for stored in request["cases"]]
    else:
        allowed = _SPENT_MS
        scorings = [partial(_followed, adapter, case, request) for case in request["cases"]]
    late, spent = 0, 0.0
    for score in scorings:
        scored = observer.not_run() if late >= _LATE or spent >= allowed else score()
        late += any(problem["code"] == "timeout" for problem in scored["problems"])
        # Time spent on a judge does not count as slowness of the reward.
        spent += scored["ms"] if scored["ms"] > _SLOW_MS and not scored["judges"] else 0.0
        yield scored


def _followed(adapter: Adapter, case: CaseRequest, request: ScoreRequest) -> ScoreReply:
    """Score one case; in a search, also name the branches that no earlier case took."""
    with branches.following(request.get("search")) as new:
        scored = adapter.score(case, request["case_timeout"])
    return {**scored, "branches": new} if new else scored


def _result(adapter: Adapter, request: Request) -> object:
    if request["op"] == "load":
        environment.enter(request)
        return adapter.load(environment.find(request["module"], request["tree"]), request)
    if request["op"] == "serve":
        environment.enter(request)
        return adapter.serve(environment.find(request["module"], request["tree"]), request)
    if request["op"] == "facts":
        return adapter.facts()
    if request["op"] == "rows":
        return adapter.rows(request)
    if request["op"] == "side-effects":
        return adapter.measure_side_effects(request["cases"], request["case_timeout"])
    if request["op"] == "rollout":
        return adapter.run_rollouts(request)
    if request["op"] == "solutions":
        return stated_solutions(adapter, request)
    if request["op"] == "locate":
        return locate(adapter, request)
    raise ValueError(f"no operation is called {request['op']!r}")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
