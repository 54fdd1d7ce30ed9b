"""Answers lines of stdin that are not JSON-RPC messages.

The SDK (mcp 2.0.0 to 2.3.0) passes such a line to its dispatcher as an exception, and the dispatcher drops the line.
The client that sent the broken request would wait for an answer until its own timeout.
"""

from __future__ import annotations

import contextvars
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from pydantic import ValidationError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class AnsweringStream:
    """The read stream of a transport, without invalid messages. Those are answered on the write stream.

    `room` is awaited before each message is read.
    """

    def __init__(self, inner: Any, write: Any, room: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
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

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> AnsweringStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AnsweringStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


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
