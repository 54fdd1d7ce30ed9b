"""Measures side effects of scoring: interference between concurrent scorings, mutated inputs, a blocked event loop.

Training scores many rollouts concurrently in one event loop (v1: `Task.score` per trace; v0: `rubric.score_rollout` per
state), so a reward must also be right under concurrency.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import coercion
from .protocol import SideEffectsCase, SideEffectsReply

if TYPE_CHECKING:
    from .adapter import Adapter

_TICK = 0.005
BLOCKED = 0.1
"""Seconds of a blocked event loop above which a case is measured again, because the machine may have been busy."""
_AGAIN = 2
_CONFIRMED = 3
"""Most blocking cases that are confirmed by measuring again."""
_SECONDS = 15.0


class ScoringAttempt:
    """A prepared scoring. `inputs` returns, by name, the values that the scoring must not change."""

    def __init__(
        self,
        score: Callable[[], Awaitable[Any]],
        inputs: Callable[[], dict[str, Any]],
        reward: Callable[[], Any],
    ) -> None:
        self.score, self._inputs, self.reward = score, inputs, reward

    def inputs(self) -> dict[str, str]:
        """The inputs as text, for comparison."""
        return {name: json.dumps(coercion.to_json(value), sort_keys=True) for name, value in self._inputs().items()}


async def measure(adapter: Adapter, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
    """Score every case alone, then the cases with `together` concurrently, a second time if a reward differs.

    `together` of a result is null for a case that was only scored alone, else a list with its concurrent reward.
    """
    started = time.monotonic()
    found = []
    confirmed = 0
    for case in cases:
        result = await _alone(adapter, case, timeout)
        if result["blocked"] > BLOCKED:
            if confirmed < _CONFIRMED and time.monotonic() - started < _SECONDS:
                again = [(await _alone(adapter, case, timeout))["blocked"] for _ in range(_AGAIN)]
                result["blocked"] = min(result["blocked"], *again)
                confirmed += result["blocked"] > BLOCKED
            else:
                result["blocked"] = 0.0
        found.append(result)
    numbers = [n for n, case in enumerate(cases) if case["together"]]
    alone = [found[n]["alone"] for n in numbers]
    for _ in range(2):
        earned = await _at_once(adapter, [cases[n] for n in numbers], timeout)
        if all(map(_same, earned, alone)):
            break
    for n, reward in zip(numbers, earned):  # noqa: B905
        found[n]["together"] = [reward]
    return found


def _same(left: Any, right: Any) -> bool:
    return left is right or (left is not None and right is not None and abs(left - right) < 1e-6)


async def _alone(adapter: Adapter, case: SideEffectsCase, timeout: float) -> SideEffectsReply:
    attempt = await adapter.attempt(case)
    before = attempt.inputs()
    ticker = _Ticker()
    await ticker.start()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(attempt.score(), timeout)
    blocked = await ticker.stop()
    after = attempt.inputs()
    changed = [name for name in before if after.get(name) != before[name]]
    changed = changed or [name for name in adapter.changed_since_loading(case["row"]) if name not in changed]
    return {"alone": attempt.reward(), "together": None, "mutated": changed, "blocked": blocked}


async def _at_once(adapter: Adapter, cases: list[SideEffectsCase], timeout: float) -> list[Any]:
    attempts = [await adapter.attempt(case) for case in cases]
    scorings = [asyncio.wait_for(attempt.score(), timeout) for attempt in attempts]
    await asyncio.gather(*scorings, return_exceptions=True)
    return [attempt.reward() for attempt in attempts]


class _Ticker:
    """The longest time in seconds that another task of the loop waited for its turn."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def start(self) -> None:
        self.last = time.perf_counter()
        self.task = asyncio.ensure_future(self._tick())
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_TICK)

    def look(self) -> None:
        now = time.perf_counter()
        self.longest, self.last = max(self.longest, now - self.last), now

    async def stop(self) -> float:
        self.look()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        return self.longest
