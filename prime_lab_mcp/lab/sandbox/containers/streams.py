"""Passes bytes between the clients of a broker, the programs that it runs, and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

CHUNK = 1 << 16
_MOST_FRAME_BYTES = 1 << 20
_MOST_OUTPUT_BYTES = 1 << 20
"""Most output of a command of the broker's own that is kept."""


class Client:
    """The connection of one client. broker.py describes the frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._writing = asyncio.Lock()

    async def _send(self, kind: bytes, content: bytes) -> None:
        async with self._writing:
            self._writer.write(kind + struct.pack("!I", len(content)) + content)
            await self._writer.drain()

    async def output_bytes(self, content: bytes) -> None:
        await self._send(b"O", content)

    async def error_bytes(self, content: bytes) -> None:
        await self._send(b"E", content)

    async def output(self, text: str) -> None:
        await self.output_bytes(text.encode())

    async def error(self, text: str) -> None:
        await self.error_bytes(text.encode())

    async def exit(self, code: int) -> None:
        await self._send(b"X", struct.pack("!I", code))

    async def ask_for_input(self) -> None:
        await self._send(b"I", b"")

    async def listen(self, stdin: asyncio.StreamWriter | None) -> None:
        """Pass the client's input to a program until the client goes away."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, length = struct.unpack("!cI", await self._reader.readexactly(5))
                if length > _MOST_FRAME_BYTES:
                    return
                content = await self._reader.readexactly(length)
                if stdin is None:
                    continue
                with contextlib.suppress(OSError):  # the program may have ended or closed its input
                    if kind == b"E":
                        stdin.close()
                    else:
                        stdin.write(content)
                        await stdin.drain()


async def pump(source: asyncio.StreamReader, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send everything that a program writes."""
    while content := await source.read(CHUNK):
        await send(content)


async def beginning(source: asyncio.StreamReader) -> bytes:
    """Read to the end, and return the first bytes. A program of a task's image may write without end."""
    kept = b""
    while content := await source.read(CHUNK):
        kept += content[: _MOST_OUTPUT_BYTES - len(kept)]
    return kept


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass one direction of a connection on, with its end."""
    try:
        while content := await source.read(CHUNK):
            target.write(content)
            await target.drain()
        target.write_eof()
    except OSError:
        target.transport.abort()  # both directions end


def reset(connection: asyncio.StreamWriter) -> None:
    """End a connection so that its other side sees an error. A plain close would look like an empty answer."""
    with contextlib.suppress(OSError):
        connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()
