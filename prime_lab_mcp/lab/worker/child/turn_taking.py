"""Lets rollouts of one process take turns: one after the other asks the model, and none goes on before all have asked.

All rollouts begin before any of them gets its first reply. A rollout then runs until it asks the model again, and the
next one goes on. At any time only one of them runs, so that the order is the same each time. A rollout that waits for
another one, such as for a lock, is left to itself after `_PATIENCE` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

_PATIENCE, _IMPATIENCE = 3.0, 0.02
"""Seconds until a rollout that neither asks nor ends is left to itself, and seconds for it in later rounds."""


class Seat:
    """The place of one rollout among those that take turns."""

    def __init__(self) -> None:
        self.rests = asyncio.Event()
        self.ended = False
        self.patience = _PATIENCE
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Wait before a reply of the model until it is this rollout's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.rests.set()
        await turn

    def leave(self, _: object) -> None:
        """Note that the rollout, a finished task, has ended."""
        self.ended = True
        self.rests.set()

    async def go_on(self) -> None:
        """Let the rollout go on, until it asks again or ends."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.rests.clear()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
        await self.rest()

    async def rest(self) -> None:
        """Return when the rollout asks the model or has ended, or after the time that it has for this."""
        try:
            await asyncio.wait_for(self.rests.wait(), self.patience)
        except TimeoutError:
            self.patience = _IMPATIENCE


async def take_turns(rollouts: Sequence[Callable[[Seat], Awaitable[Any]]]) -> list[Any]:
    """Run rollouts that call `Seat.wait` before each reply of their model, and return their results in order."""
    seats = [Seat() for _ in rollouts]
    running: list[asyncio.Future[Any]] = []
    for seat, begin in zip(seats, rollouts):  # noqa: B905
        task = asyncio.ensure_future(begin(seat))
        task.add_done_callback(seat.leave)
        running.append(task)
        await seat.rest()
    while not all(seat.ended for seat in seats):
        for seat in seats:
            if not seat.ended:
                await seat.go_on()
    return list(await asyncio.gather(*running))
