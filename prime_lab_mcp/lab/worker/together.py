"""How a scoring behaves beside what it pays: beside others in one event loop, towards its inputs, towards the loop.

Runs in the environment's interpreter. Training scores many rollouts at once in one loop (v1: `Task.score` per trace;
v0: `rubric.score_rollout` per state), so what is only right alone is wrong there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

_TICK = 0.005
BLOCKED = 0.1
"""Seconds without a turn for other tasks that are measured again: the machine may have been busy elsewhere."""
_AGAIN = 2
_CONFIRMED = 3
"""Blocking cases that are measured again; they stand for the others."""
_SECONDS = 15.0


class Attempt:
    """One scoring that has not begun. `inputs` shows by name what it may read and not change."""

    def __init__(
        self,
        score: Callable[[], Awaitable[Any]],
        inputs: Callable[[], dict[str, Any]],
        reward: Callable[[], Any],
    ) -> None:
        self.score, self._inputs, self.reward = score, inputs, reward

    def inputs(self) -> dict[str, str]:
        """The inputs as text, to be compared."""
        plain = sys.modules["_prime_lab_worker_program"].sibling("plain").plain
        return {name: json.dumps(plain(value), sort_keys=True) for name, value in self._inputs().items()}


async def observe(adapter: Any, cases: list[dict[str, Any]], timeout: float) -> list[dict[str, Any]]:
    """Score every case alone, then those that say `together` at once; a difference is tried once more.

    `together` of the result is null where the case was not among them, else what it earned there, in a list.
    """
    started = time.monotonic()
    found = []
    confirmed = 0
    for case in cases:
        told = await _alone(adapter, case, timeout)
        if told["blocked"] > BLOCKED:
            if confirmed < _CONFIRMED and time.monotonic() - started < _SECONDS:
                again = [(await _alone(adapter, case, timeout))["blocked"] for _ in range(_AGAIN)]
                told["blocked"] = min(told["blocked"], *again)
                confirmed += told["blocked"] > BLOCKED
            else:
                told["blocked"] = 0.0
        found.append(told)
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


async def _alone(adapter: Any, case: dict[str, Any], timeout: float) -> dict[str, Any]:
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


async def _at_once(adapter: Any, cases: list[dict[str, Any]], timeout: float) -> list[Any]:
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
