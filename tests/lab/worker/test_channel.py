"""A channel between the server and a worker, at its ends."""

from __future__ import annotations

import socket
import threading

import anyio
import pytest

from prime_lab_mcp.lab.worker.channel import Channel, ChannelClosed, ChannelFlood, pair

pytestmark = pytest.mark.anyio


async def test_closing_ends_a_receive_that_waits() -> None:
    channel, theirs = pair()
    with theirs:
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                with pytest.raises(ChannelClosed):
                    await channel.receive()

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            channel.close()


async def test_a_message_larger_than_the_socket_holds_is_sent_as_the_other_end_reads() -> None:
    channel, theirs = pair()
    size, received = 4 << 20, bytearray()

    def read() -> None:
        while len(received) < size:
            received.extend(theirs.recv(1 << 16))

    with theirs:
        reader = threading.Timer(0.05, read)
        reader.start()
        await channel.send("x" * size)
        await anyio.to_thread.run_sync(reader.join)
        channel.close()
    assert received.startswith(b'"xxx')


async def test_a_line_above_the_limit_is_a_flood() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, limit=10)
    with theirs:
        theirs.sendall(b"x" * 100)
        with pytest.raises(ChannelFlood):
            await channel.receive()
        channel.close()


async def test_a_channel_is_silent_while_it_is_open_and_nothing_waits() -> None:
    channel, theirs = pair()
    with theirs:
        assert channel.silent
        theirs.sendall(b'{"a": 1}\n{"a": 2}\n')
        assert not channel.silent
        assert await channel.receive() == {"a": 1}
        assert not channel.silent
        assert await channel.receive() == {"a": 2}
        assert channel.silent
        channel.close()
        assert not channel.silent
        channel.close()
