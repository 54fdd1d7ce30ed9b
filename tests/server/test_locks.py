"""Locks by key: one holder at a time, and nothing is kept of keys that are no longer in use."""

from __future__ import annotations

import anyio
import pytest

from prime_lab_mcp.server.locks import KeyedLocks

pytestmark = pytest.mark.anyio


async def test_holders_of_one_key_wait_for_one_another_and_the_lock_is_dropped_after_the_last() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def hold(name: str) -> None:
        async with locks.hold("push"):
            order.append(f"{name} in")
            await anyio.sleep(0.01)
            order.append(f"{name} out")

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(hold, name)
    assert order == ["a in", "a out", "b in", "b out", "c in", "c out"]
    assert len(locks) == 0


async def test_other_keys_do_not_wait() -> None:
    locks = KeyedLocks()
    async with locks.hold("push"):
        assert locks.is_held("push")
        assert not locks.is_held("submit")
        with anyio.fail_after(1):
            async with locks.hold("submit"):
                pass
    assert not locks.is_held("push")


async def test_a_cancelled_waiter_leaves_the_lock_to_its_holder() -> None:
    locks = KeyedLocks()

    async def wait() -> None:
        async with locks.hold("push"):
            raise AssertionError("two held one lock")

    async with locks.hold("push"):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert locks.is_held("push")
    assert len(locks) == 0
