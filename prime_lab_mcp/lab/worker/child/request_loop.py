"""The request loop of a child: reads requests, calls the adapter, writes replies. Each line is one JSON object.

The process runs environment code. The loop turns every exception of that code into a reply. The answer to `score` has
one line for each case, so that the server knows which case hangs.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial

from . import branches, coercion, environment, judges, observer
from .adapter import Adapter, locate, stated_solutions
from .adapter_v0 import AdapterV0
from .adapter_v1 import AdapterV1
from .protocol import CaseRequest, Request, RescoreRequest, ScoreReply, ScoreRequest

IDLE = 1800.0
"""Seconds without a request after which a child ends."""
_MOST_BYTES = 24 << 20
"""Most bytes of one reply. The server accepts 32 MiB (worker/channel.py)."""
_BROKEN_PIPE = 73
_MOST_TIMEOUTS = 3
"""Timed-out cases of one request after which the remaining cases are left out; rewards/scorer.py has the same limit."""
_MOST_QUESTIONS = 4
"""Most reported questions to a stand-in for one case."""
_SLOW_MS = 2000.0
_SPENT_MS = 60_000.0
"""Total milliseconds of cases slower than `_SLOW_MS` after which the remaining cases of a request are left out."""


class Refused(Exception):
    """The environment caused a reply that is too large to send."""


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
        if len(encoded) > _MOST_BYTES:
            raise Refused(f"the answer has {len(encoded):,} bytes; {_MOST_BYTES:,} can be passed on")
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
        scorings = [partial(_score_case, adapter, case, request) for case in request["cases"]]
    late, spent = 0, 0.0
    for score in scorings:
        scored = observer.not_run() if late >= _MOST_TIMEOUTS or spent >= allowed else score()
        late += any(problem["code"] == "timeout" for problem in scored["problems"])
        # Cases that ask a judge are never counted as slow, because the judge may be what takes the time.
        spent += scored["ms"] if scored["ms"] > _SLOW_MS and not scored["judges"] else 0.0
        yield scored


def _score_case(adapter: Adapter, case: CaseRequest, request: ScoreRequest) -> ScoreReply:
    """Score one case. In a search, add the branches that no earlier case of the search took.

    With a verdict for a stand-in, add the questions that the reward asks its judge.
    """
    with branches.following(request.get("search")) as new, judges.standing_in(case.get("verdict")) as stand_in:
        scored = adapter.score(case, request["case_timeout"])
    if stand_in is not None:
        scored = {**scored, "questions": stand_in.questions[:_MOST_QUESTIONS]}
    return {**scored, "branches": new} if new else scored


def _result(adapter: Adapter, request: Request) -> object:
    if request["op"] == "load":
        environment.enter(request)
        return adapter.load(environment.import_environment(request["module"], request["tree"]), request)
    if request["op"] == "serve":
        environment.enter(request)
        return adapter.serve(environment.import_environment(request["module"], request["tree"]), request)
    if request["op"] == "serve-rollouts":
        environment.enter(request)
        return adapter.serve_rollouts(environment.import_environment(request["module"], request["tree"]), request)
    if request["op"] == "task-data":
        return adapter.task_data(request["rows"])
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
