"""Locks by key: calls with one effect on the platform wait for one another, and all others do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class KeyedLocks:
    """A lock for each key in use. A lock that nobody holds or waits for is dropped, so that old keys cost nothing."""

    def __init__(self) -> None:
        self._locks: dict[str, anyio.Lock] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Wait until nobody else holds the lock of a key, and hold it."""
        lock = self._locks.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            state = lock.statistics()
            if not state.locked and not state.tasks_waiting:
                self._locks.pop(key, None)

    def is_held(self, key: str) -> bool:
        """Whether somebody holds the lock of a key now."""
        lock = self._locks.get(key)
        return lock is not None and lock.statistics().locked

    def __len__(self) -> int:
        return len(self._locks)
