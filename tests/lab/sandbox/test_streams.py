"""What a broker passes on between a client, a program and sockets, byte by byte and to the end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from prime_lab_mcp.lab.sandbox.containers.streams import Client, beginning, copy, pump, reset

pytestmark = pytest.mark.anyio

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Stream, Stream]]:
    """Two ends of one connection."""
    ours, theirs = socket.socketpair()
    ends = [await asyncio.open_connection(sock=end) for end in (ours, theirs)]
    try:
        yield ends[0], ends[1]
    finally:
        for _, writer in ends:
            writer.close()


def frame(kind: bytes, content: bytes, length: int | None = None) -> bytes:
    return kind + struct.pack("!I", len(content) if length is None else length) + content


async def test_each_output_is_a_frame_with_its_length() -> None:
    async with connected() as ((reader, writer), (received, _)):
        client = Client(reader, writer)
        await client.output("out")
        await client.error("é")
        await client.ask_for_input()
        await client.exit(7)
        sent = frame(b"O", b"out") + frame(b"E", "é".encode()) + frame(b"I", b"") + frame(b"X", b"\0\0\0\7")
        assert await received.readexactly(len(sent)) == sent


async def test_input_of_a_client_reaches_the_program_until_its_end() -> None:
    async with connected() as ((reader, writer), (_, sender)), connected() as ((_, stdin), (program, _)):
        sender.write(frame(b"D", b"one ") + frame(b"D", b"two") + frame(b"E", b"") + frame(b"D", b"late"))
        sender.write_eof()
        await Client(reader, writer).listen(stdin)
        assert await program.read() == b"one two"


async def test_a_program_without_input_or_a_frame_above_the_limit_gets_nothing() -> None:
    async with connected() as ((reader, writer), (_, sender)), connected() as ((_, stdin), (program, _)):
        sender.write(frame(b"D", b"unread") + frame(b"D", b"", length=1 << 30))
        await Client(reader, writer).listen(None)
        sender.write(frame(b"D", b"", length=1 << 30))
        await Client(reader, writer).listen(stdin)
        stdin.close()
        assert await program.read() == b""


async def test_of_an_output_without_end_only_the_beginning_is_kept() -> None:
    async with connected() as ((reader, _), (_, sender)):
        told: list[bytes] = []

        async def send(content: bytes) -> None:
            told.append(content)

        sender.write(b"first")
        sender.write_eof()
        await pump(reader, send)
        assert b"".join(told) == b"first"
    async with connected() as ((reader, _), (_, sender)):
        kept = asyncio.create_task(beginning(reader))
        sender.write(b"x" * (3 << 20))
        await sender.drain()
        sender.write_eof()
        assert await kept == b"x" * (1 << 20)


async def test_a_connection_is_copied_with_its_end_and_ends_where_nobody_reads() -> None:
    async with connected() as ((source, _), (_, sender)), connected() as ((_, target), (copied, _)):
        sender.write(b"bytes")
        sender.write_eof()
        await copy(source, target)
        assert await copied.read() == b"bytes"
    async with connected() as ((source, _), (_, sender)), connected() as ((_, target), (_, gone)):
        gone.transport.abort()
        await asyncio.sleep(0.01)
        sender.write(b"x" * (1 << 18))
        sender.write_eof()
        await copy(source, target)
        assert target.transport.is_closing()


@pytest.mark.parametrize("said", [b"", b"hi"], ids=["nothing was sent", "something unread was sent"])
async def test_a_connection_that_is_reset_is_an_error_to_its_other_side(said: bytes) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reset(writer)

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(said)
        with pytest.raises(ConnectionResetError):  # a plain close would be an empty answer
            await reader.read()
        writer.close()


async def test_a_connection_that_has_ended_may_be_reset() -> None:
    async with connected() as ((_, writer), (received, _)):
        writer.transport.abort()
        await received.read()
        await asyncio.sleep(0)
        reset(writer)
