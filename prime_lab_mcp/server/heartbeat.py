"""Sends progress at least every few seconds: repeats the last message of a long call, with the seconds passed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from prime_lab_mcp.lab.base.report import Progress

log = logging.getLogger("prime_lab_mcp")

EVERY = 4.0
"""Seconds without a message after which the last one is repeated. We want no user to wait longer than five in
silence."""


@asynccontextmanager
async def heartbeat(progress: Progress, waiting_for: str) -> AsyncIterator[Progress]:
    """Yield a progress callback that repeats its last message while the block sends none, with the seconds since then.

    `waiting_for` is the message until the block sends its first. If a message cannot be sent, the call continues, and
    its report gives the result.
    """
    done, total, message = 0.0, None, waiting_for
    since = spoken = anyio.current_time()

    async def send(now: float, of: float | None, text: str) -> None:
        try:
            await progress(now, of, text)
        except Exception as error:
            log.info("a progress message was not sent: %s: %s", type(error).__name__, error)

    async def say(now: float, of: float | None, text: str) -> None:
        nonlocal done, total, message, since, spoken
        spoken = anyio.current_time()
        since = since if text == message else spoken
        done, total, message = now, of, text
        await send(now, of, text)

    async def beat() -> None:
        nonlocal spoken
        while True:
            await anyio.sleep(max(0.05, spoken + EVERY - anyio.current_time()))
            if anyio.current_time() - spoken >= EVERY:
                spoken = anyio.current_time()
                await send(done, total, f"{message} ({spoken - since:.0f} s)")

    failure: Exception | None = None
    async with anyio.create_task_group() as beating:
        beating.start_soon(beat)
        try:
            yield say
        except Exception as error:
            # Raised again after the task group, which would wrap it.
            failure = error
        finally:
            beating.cancel_scope.cancel()
    if failure is not None:
        raise failure
