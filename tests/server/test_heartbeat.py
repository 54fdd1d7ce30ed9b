"""A long call is never silent: what it waits for is repeated, and no message is lost for lack of progress."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from mcp import Client

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import app, call, heartbeat
from tests.protocol.toys import Nothing, toy

pytestmark = pytest.mark.anyio


async def test_what_is_waited_for_is_said_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    said: list[tuple[float, str]] = []

    async def progress(done: float, total: float | None, message: str) -> None:
        said.append((done, message.partition(" (")[0]))

    async with heartbeat.heartbeat(progress, "looks around") as say:
        await anyio.sleep(0.1)
        await say(0.3, 1.0, "builds a Python environment")
        await anyio.sleep(0.1)
    assert said[0] == (0.0, "looks around")
    assert said.count((0.3, "builds a Python environment")) >= 2
    ended = len(said)
    await anyio.sleep(0.05)
    assert len(said) == ended


async def test_the_seconds_are_those_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.05)
    said: list[str] = []

    async def progress(done: float, total: float | None, message: str) -> None:
        said.append(message)

    async with heartbeat.heartbeat(progress, "builds") as say:
        await anyio.sleep(1.2)
        await say(0.5, 1.0, "scoring")
        await anyio.sleep(0.3)
    assert "builds (1 s)" in said
    assert said[said.index("scoring") + 1] == "scoring (0 s)"


async def test_an_error_of_the_call_comes_through_as_it_is() -> None:
    async def progress(done: float, total: float | None, message: str) -> None:
        """Nobody listens."""

    error = BadInput("x", fix="y")
    with pytest.raises(BadInput) as caught:
        async with heartbeat.heartbeat(progress, "looks around"):
            raise error
    assert caught.value is error


async def test_a_message_that_cannot_be_sent_ends_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    failed: list[str] = []

    async def progress(done: float, total: float | None, message: str) -> None:
        failed.append(message)
        raise anyio.BrokenResourceError

    worked = False
    async with heartbeat.heartbeat(progress, "looks around") as say:
        await say(0.1, 1.0, "begins")
        while len(failed) < 3:
            await anyio.sleep(0.01)
        worked = True
    assert worked


async def test_a_message_without_progress_reaches_the_client_above_the_one_before() -> None:
    sent: list[tuple[float, str]] = []

    async def report_progress(done: float, total: float | None, message: str) -> None:
        sent.append((done, message))

    forward = app._forward(cast(Any, SimpleNamespace(report_progress=report_progress)))
    for done, message in [(0.3, "builds a Python environment"), (0.3, "loads"), (0.0, "400 rollouts"), (2.0, "2 done")]:
        await forward(done, None, message)
    assert [message for _, message in sent] == ["builds a Python environment", "loads", "400 rollouts", "2 done"]
    values = [done for done, _ in sent]
    assert values == sorted(set(values))


async def test_a_call_that_waits_for_its_turn_says_so_again_and_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    monkeypatch.setattr(call, "EXECUTING", 1)
    first_may_end = anyio.Event()

    async def busy(*_: object) -> Outcome:
        await first_may_end.wait()
        return Outcome("passed", "done")

    lab = Lab(settings)
    calls = call.Calls(lab, (toy("busy", Nothing, busy, "executes"),), References())
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str) -> None:
        heard.append(message.partition(" (")[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calls.execute, "busy", {})
        await anyio.sleep(0.05)

        async def second() -> None:
            await calls.execute("busy", {}, progress=progress)

        tasks.start_soon(second)
        with anyio.fail_after(10):
            while heard.count("busy waits for other calls that run environments") < 3:
                await anyio.sleep(0.01)
        first_may_end.set()
    await lab.close()


async def test_loading_the_tools_is_not_silent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    heard: list[str | None] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((message or "").partition(" (")[0])

    server = app.build_server(Lab(settings))
    load = server._import

    def slowly() -> call.Calls:
        time.sleep(0.3)
        return load()

    monkeypatch.setattr(server, "_import", slowly)
    async with Client(server) as client:
        await client.call_tool("workflow_status", {}, progress_callback=progress)
    assert heard.count("the server loads its tools") >= 3
    assert "the tools are loaded; workflow_status begins" in heard


async def test_the_recommended_calls_are_made_with_the_heartbeat_of_the_call(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For them the files are read again, which can take longer than a user waits in silence."""
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    heard: list[str] = []
    enough = anyio.Event()

    async def progress(done: float, total: float | None, message: str) -> None:
        heard.append(message)
        if len(heard) == 3:
            enough.set()

    async def passes(*_: object) -> Outcome:
        return Outcome("passed", "done")

    lab = Lab(settings)
    calls = call.Calls(lab, (toy("quick", Nothing, passes, "reads"),), References())
    complete = calls._with_right_calls

    async def slowly(*given: Any) -> Any:
        with anyio.fail_after(30):
            await enough.wait()
        return await complete(*given)

    monkeypatch.setattr(calls, "_with_right_calls", slowly)
    assert (await calls.execute("quick", {}, progress=progress)).status == "passed"
    await lab.close()
