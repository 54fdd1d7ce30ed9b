"""A channel between the server and a worker, at its ends."""

from __future__ import annotations

import anyio
import pytest

from prime_lab_mcp.lab.worker.channel import ChannelClosed, pair

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
