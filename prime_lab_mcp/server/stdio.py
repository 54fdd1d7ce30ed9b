"""Serves stdin and stdout like the SDK, but also handles slow readers, invalid lines, and Ctrl-C.

The SDK (mcp 2.0.0) reads requests regardless of how many answers wait, so a client that never reads lets the server
grow without limit. The SDK also reads lines in a thread that cannot be cancelled, so an interrupted server waits for
the next line.

The SDK (mcp 2.0.0 to 2.3.0) passes a line that is not a JSON-RPC message to its dispatcher as an exception, and the
dispatcher drops it. The client that sent the line would wait for an answer until its own timeout.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from pydantic import ValidationError

log = logging.getLogger("prime_lab_mcp")

MOST_UNREAD = 200
"""Number of messages that may wait for the client to read. Above it, no further message of the client is read."""
INTERRUPTED = 130
"""Exit code after SIGINT, as shells report it."""


class _WrappedStream:
    """A stream of a transport that closes with the stream inside."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class BoundedWrites(_WrappedStream):
    """The write stream of a transport, which counts the messages that wait for the client to read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._waiting = 0
        self._fewer = anyio.Event()

    async def send(self, message: Any) -> None:
        self._waiting += 1
        try:
            await self._inner.send(message)
        finally:
            self._waiting -= 1
            self._fewer.set()

    async def room(self) -> None:
        """Return once fewer than `MOST_UNREAD` messages wait."""
        while self._waiting >= MOST_UNREAD:
            self._fewer = anyio.Event()
            await self._fewer.wait()


PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class AnsweringStream(_WrappedStream):
    """The read stream of a transport, without invalid messages. Those are answered on the write stream.

    `room` is awaited before each message is read.
    """

    def __init__(self, inner: Any, write: Any, room: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self._write = write
        self._room = room

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the newest message's sender, which the SDK reads."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> SessionMessage | Exception:
        while True:
            await self._room()
            item: SessionMessage | Exception = await self._inner.receive()
            answer = answer_to(item) if isinstance(item, ValidationError) else None
            if answer is not None:
                await self._write.send(SessionMessage(answer))
            elif not isinstance(item, ValidationError):
                return item

    def __aiter__(self) -> AnsweringStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def answer_to(error: ValidationError) -> JSONRPCError | None:
    """The error response to an invalid line; None for an empty line and for a broken response of the client."""
    problems = error.errors(include_url=False, include_context=False)
    if any(problem["type"] == "json_invalid" for problem in problems):
        if any(isinstance(problem["input"], str) and not problem["input"].strip() for problem in problems):
            return None
        return _error(_stated_id(problems[0]["input"]), PARSE_ERROR, "Parse error: a line is one JSON-RPC message")
    messages = [problem["input"] for problem in problems if isinstance(problem["input"], dict)]
    if any("result" in message or "error" in message for message in messages):
        return None
    ids = [m["id"] for m in messages if "method" in m and type(m.get("id")) in (int, str)]
    return _error(ids[0] if ids else None, INVALID_REQUEST, "Invalid Request: this is no JSON-RPC 2.0 message")


def _stated_id(line: Any) -> int | str | None:
    """The id of a request that only a tolerant parser reads, for example one with half of a surrogate pair."""
    try:
        request = json.loads(line)
        id = request.get("id") if isinstance(request, dict) and "method" in request else None
        if isinstance(id, str):
            id.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return id if type(id) in (int, str) else None


def _error(id: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))


async def serve_stdio(run: Callable[[Any, Any], Awaitable[None]]) -> None:
    """Run a server on stdin and stdout until the client closes one of them, or until SIGINT.

    SIGINT cancels `run`, which finishes shielded work such as a push, and closes its resources. Then the process exits,
    because its reading thread still waits for a line. A second SIGINT ends the process at once.
    """
    from mcp.server.stdio import stdio_server

    try:
        async with stdio_server() as (read, write):
            bounded = BoundedWrites(write)
            with anyio.CancelScope() as scope, _interrupting(scope):
                await run(AnsweringStream(read, bounded, bounded.room), bounded)
            if scope.cancelled_caught:
                logging.shutdown()
                os._exit(INTERRUPTED)
    except* BrokenPipeError:
        log.info("the client closed the pipe of the answers, and this server ends")


@contextmanager
def _interrupting(scope: anyio.CancelScope) -> Iterator[None]:
    """Cancel the scope at SIGINT. Only the main thread of a process gets signals."""

    def interrupt() -> None:
        if scope.cancel_called:
            os._exit(INTERRUPTED)
        scope.cancel()

    loop = asyncio.get_running_loop()
    with suppress(ValueError, RuntimeError, NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if not scope.cancel_called:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)
