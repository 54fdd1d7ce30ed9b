"""Serves stdin and stdout like the SDK, but also handles clients that read slowly, and Ctrl-C.

The SDK (mcp 2.0.0) reads requests regardless of how many answers wait, so a client that never reads lets the server
grow without limit. The SDK also reads lines in a thread that cannot be cancelled, so an interrupted server waits for
the next line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import anyio

from prime_lab_mcp.server.malformed import AnsweringStream

log = logging.getLogger("prime_lab_mcp")

MOST_UNREAD = 200
"""Number of messages that may wait for the client to read. Above it, no further message of the client is read."""
INTERRUPTED = 130
"""Exit code after SIGINT, as shells report it."""


class BoundedWrites:
    """The write stream of a transport, which counts the messages that wait for the client to read."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
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

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> BoundedWrites:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


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
