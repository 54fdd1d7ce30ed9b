"""Progress at least every few seconds: repeats what a long call waits for, with the seconds that have passed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from prime_lab_mcp.lab.base.report import Progress

log = logging.getLogger("prime_lab_mcp")

EVERY = 4.0
"""Seconds without a message after which the last one is repeated. Users wait for no more than five in silence."""


@asynccontextmanager
async def heartbeat(progress: Progress, waiting_for: str) -> AsyncIterator[Progress]:
    """A progress callback that repeats its last message while the body says nothing.

    `waiting_for`: what is said until the body says something itself. A message that cannot be sent ends nothing: the
    call goes on, and its report says what became of it.
    """
    done, total, message = 0.0, None, waiting_for
    started = spoken = anyio.current_time()

    async def send(now: float, of: float | None, text: str) -> None:
        try:
            await progress(now, of, text)
        except Exception as error:
            log.info("a progress message was not sent: %s: %s", type(error).__name__, error)

    async def say(now: float, of: float | None, text: str) -> None:
        nonlocal done, total, message, spoken
        done, total, message, spoken = now, of, text, anyio.current_time()
        await send(now, of, text)

    async def beat() -> None:
        nonlocal spoken
        while True:
            await anyio.sleep(max(0.05, spoken + EVERY - anyio.current_time()))
            if anyio.current_time() - spoken >= EVERY:
                spoken = anyio.current_time()
                await send(done, total, f"{message} ({spoken - started:.0f} s)")

    failure: Exception | None = None
    async with anyio.create_task_group() as beating:
        beating.start_soon(beat)
        try:
            yield say
        except Exception as error:
            # Outside of the group: a task group would wrap it.
            failure = error
        finally:
            beating.cancel_scope.cancel()
    if failure is not None:
        raise failure
