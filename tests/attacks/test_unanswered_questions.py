"""A question that nobody answers holds back nothing, and an answer that comes after the work was done sends nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.call import Calls
from tests.property.world import World


def beside_an_open_question(world: World, proven: Calls, tool: str, arguments: dict[str, Any]) -> list[Report]:
    """The reports of a call that another client answers while this one's question is open, and of the late answer."""

    async def both() -> list[Report]:
        opened, answered = asyncio.Event(), asyncio.Event()

        async def late(question: str) -> Any:
            opened.set()
            await answered.wait()
            return "approved"

        async def at_once(question: str) -> Any:
            return "approved"

        first = asyncio.create_task(proven.execute(tool, arguments, ask=late))
        await opened.wait()
        second = await asyncio.wait_for(proven.execute(tool, arguments, ask=at_once), 60)
        answered.set()
        return [second, await first]

    return world.loop.run_until_complete(both())


def test_a_push_beside_an_open_question_is_sent_and_the_late_answer_sends_no_other(world: World, proven: Calls) -> None:
    other, late = beside_an_open_question(world, proven, "push_environment", {"environment": "sums"})
    assert other.status == "passed", other.findings
    assert len(world.pushes()) == 1
    assert (late.status, late.data["deduplicated"]) == ("passed", True), late.findings


def test_a_run_beside_an_open_question_is_started_under_a_cap_for_one_and_the_late_answer_starts_no_other(
    world: World, proven: Calls
) -> None:
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    written = world.call(
        proven, "write_training_config", environments=["me/sums@0.1.0"], model="Qwen/Qwen3-4B-Instruct-2507", steps=10
    )
    asked = world.loop.run_until_complete(proven.execute("submit_training", {"config": written.data["path"]}))
    proven.lab.settings = replace(proven.lab.settings, max_spend=1.5 * asked.data["max_cost"])
    other, late = beside_an_open_question(world, proven, "submit_training", {"config": written.data["path"]})
    assert other.status == "passed", other.findings
    assert [run["id"] for run in world.runs()] == [other.data["id"]]
    assert (late.status, late.data["id"]) == ("passed", other.data["id"]), late.findings


def test_a_question_whose_call_is_cancelled_leaves_nothing_reserved(world: World, proven: Calls) -> None:
    async def cancelled() -> None:
        opened = asyncio.Event()

        async def never(question: str) -> Any:
            opened.set()
            await asyncio.Event().wait()

        call = asyncio.create_task(proven.execute("push_environment", {"environment": "sums"}, ask=never))
        await opened.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    world.loop.run_until_complete(cancelled())
    assert world.pushes() == []
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    assert len(world.pushes()) == 1
