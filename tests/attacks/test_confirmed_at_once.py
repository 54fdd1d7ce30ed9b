"""One token that two clients pass back at once over HTTP: both hear the outcome of the one request that was sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
import uvicorn
from mcp import Client

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Plan, PlannedTool
from tests.property.world import TOOLS, World


@asynccontextmanager
async def served(calls: Calls) -> AsyncIterator[str]:
    """The address of a lab that is served over HTTP in this process."""
    app = build_server(calls.lab, TOOLS).streamable_http_app(host="127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))
    serving = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    task = asyncio.create_task(serving.serve(sockets=[listener]))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    serving.should_exit = True
    await task


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    content = (await client.call_tool(tool, arguments)).structured_content
    assert content is not None
    return content


def confirmed_by_two(
    world: World, proven: Calls, tool: str, arguments: dict[str, Any], *, delay: float = 0.0
) -> list[dict[str, Any]]:
    """The answers to two clients that pass one token back, the second after `delay` seconds."""

    async def both() -> list[dict[str, Any]]:
        async with served(proven) as url, Client(url) as one, Client(url) as two:
            asked = await call(one, tool, arguments)
            assert asked["status"] == "needs_confirmation", asked
            given = arguments | {"confirm": asked["data"]["confirm"]}

            async def late() -> dict[str, Any]:
                await asyncio.sleep(delay)
                return await call(two, tool, given)

            return list(await asyncio.gather(call(one, tool, given), late()))

    return world.loop.run_until_complete(both())


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_two_that_confirm_one_push_both_hear_that_it_was_pushed(world: World, proven: Calls, delay: float) -> None:
    answers = confirmed_by_two(world, proven, "push_environment", {"environment": "sums"}, delay=delay)
    assert len(world.pushes()) == 1
    assert [answer["status"] for answer in answers] == ["passed", "passed"], answers
    assert sorted(answer["data"]["deduplicated"] for answer in answers) == [False, True]
    assert {answer["data"]["version"] for answer in answers} == {"0.1.0"}


def test_two_that_confirm_one_push_of_a_raised_version_both_hear_of_that_version(world: World, proven: Calls) -> None:
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    world.write("one", "sums", readme="b")
    answers = confirmed_by_two(world, proven, "push_environment", {"environment": "sums", "bump": "patch"})
    assert [push["version"] for push in world.pushes()] == ["0.1.0", "0.1.1"]
    assert [answer["status"] for answer in answers] == ["passed", "passed"], answers
    assert {answer["data"]["version"] for answer in answers} == {"0.1.1"}


@pytest.mark.parametrize("delay", [0.0, 0.2])
def test_two_that_confirm_one_run_both_hear_of_that_run(world: World, proven: Calls, delay: float) -> None:
    """The cap leaves room for one run: the reserved amount of the first call must not refuse the second one."""
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    written = world.call(
        proven, "write_training_config", environments=["me/sums@0.1.0"], model="Qwen/Qwen3-4B-Instruct-2507", steps=10
    )
    asked = world.loop.run_until_complete(proven.execute("submit_training", {"config": written.data["path"]}))
    proven.lab.settings = replace(proven.lab.settings, max_spend=1.5 * asked.data["max_cost"])
    answers = confirmed_by_two(world, proven, "submit_training", {"config": written.data["path"]}, delay=delay)
    assert len(world.runs()) == 1
    assert [answer["status"] for answer in answers] == ["passed", "passed"], answers
    assert {answer["data"]["id"] for answer in answers} == {world.runs()[0]["id"]}


class Published(Arguments):
    confirm: str | None = None


@pytest.mark.anyio
async def test_a_call_that_is_being_sent_is_waited_for_by_one_with_the_same_arguments(lab: Lab) -> None:
    """Half of an effect changes what would be planned: the Hub knows a new environment before it has its files."""
    effects: list[str] = []

    async def plan(call: Call, args: Published) -> Plan[str]:
        done = effects[-1:] == ["whole"]
        return Plan("", None if done else Intent("push", f"after {effects}", "Publish?"))

    async def publish(call: Call, plan: Plan[str]) -> Outcome:
        if plan.intent is None:
            return Outcome("passed", "it is there already")
        effects.append("half")
        await anyio.sleep(0.3)
        effects.append("whole")
        return Outcome("passed", "published")

    tool = PlannedTool(
        name="publish", title="Publish", description="", args=Published, plan=plan, run=publish, effect="publishes"
    )
    calls, answers = Calls(lab, (tool,), References()), dict[float, Report]()
    token = (await calls.execute("publish", {})).data["confirm"]

    async def confirm(delay: float) -> None:
        await anyio.sleep(delay)
        answers[delay] = await calls.execute("publish", {"confirm": token})

    async with anyio.create_task_group() as both:
        both.start_soon(confirm, 0.0)
        both.start_soon(confirm, 0.15)
    # The second one may be answered first: it has nothing to do once the first has let go.
    assert (answers[0.0].summary, answers[0.15].summary) == ("published", "it is there already"), answers
    assert effects == ["half", "whole"]
    assert not calls._one_at_a_time  # Locks are kept only while somebody holds them or waits.
