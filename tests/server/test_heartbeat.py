"""A long call is never silent: what it waits for is repeated, and no message is lost for lack of progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.server import app, heartbeat

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


async def test_an_error_of_the_call_comes_through_as_it_is() -> None:
    async def progress(done: float, total: float | None, message: str) -> None:
        """Nobody listens."""

    error = BadInput("x", fix="y")
    with pytest.raises(BadInput) as caught:
        async with heartbeat.heartbeat(progress, "looks around"):
            raise error
    assert caught.value is error


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
