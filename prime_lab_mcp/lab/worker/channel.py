"""A channel: a socket that carries one JSON object per line.

The server talks to its child processes through channels.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any

import anyio

LINE = 32 << 20
"""Most bytes of a line. A longer line raises ChannelFlood. Workers do not send lines above 24 MiB."""


class ChannelClosed(Exception):
    """The other process has closed its end of the socket."""


class ChannelFlood(Exception):
    """The other process sent a line that is longer than the limit."""


class ChannelGarbage(Exception):
    """The other process sent a line that is not a JSON object."""


class Channel:
    """The server's end of the socket. Only one task at a time may use a channel."""

    def __init__(self, end: socket.socket, limit: int = LINE) -> None:
        end.setblocking(False)
        self._end = end
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    async def send(self, message: object, fds: tuple[int, ...] = ()) -> None:
        """Send one message and the file descriptors `fds`. Raises ChannelClosed."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while data:
                try:
                    sent = socket.send_fds(self._end, [data], list(fds)) if fds else self._end.send(data)
                    fds = ()
                    data = data[sent:]
                except BlockingIOError:
                    await anyio.wait_writable(self._end)
        except (OSError, ValueError, anyio.ClosedResourceError) as error:
            raise ChannelClosed from error

    async def receive(self) -> dict[str, Any]:
        """Receive the next object. Raises ChannelClosed, ChannelFlood, ChannelGarbage."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if len(self._buffer) > self._limit:
                raise ChannelFlood
            self._buffer += await self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ChannelGarbage(line[:300].decode("utf-8", "replace"))
        return message

    async def _more(self) -> bytes:
        while True:
            try:
                try:
                    chunk = self._end.recv(1 << 20)
                except BlockingIOError:
                    await anyio.wait_readable(self._end)
                    continue
            except (OSError, ValueError, anyio.ClosedResourceError) as error:
                raise ChannelClosed from error
            if not chunk:
                raise ChannelClosed
            return chunk

    @property
    def silent(self) -> bool:
        """Whether the other end is open and there is nothing to read."""
        if self._buffer:
            return False
        try:
            self._end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        return False

    async def wait(self, seconds: float) -> None:
        """Wait until there is something to read or the other end closes, at most `seconds`."""
        with anyio.move_on_after(seconds), suppress(OSError, ValueError, anyio.ClosedResourceError):
            await anyio.wait_readable(self._end)

    def finish(self) -> None:
        """Shut down the sending side of the socket. The other process reads the end of the stream."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket. Another task that waits on this channel gets ChannelClosed."""
        if self._end.fileno() >= 0:
            anyio.notify_closing(self._end)
        self._end.close()


def pair() -> tuple[Channel, socket.socket]:
    """Make a channel and the socket at its other end.

    The caller passes that socket to another process and closes it.
    """
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs
