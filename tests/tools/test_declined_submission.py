"""A submission that a person declines is not offered again, and a run that was started is watched."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk, NoPages

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PATH = "configs/rl/declined.toml"


async def test_after_a_decline_come_calls_that_change_the_config_and_then_the_live_run(at: Desk) -> None:
    calls = Calls(at.lab, TOOLS, NoPages())
    at.config(CONFIG + "# declined\n", PATH)

    async def submit(answer: str, **given: Any) -> Report:
        async def ask(question: str) -> Any:
            return answer

        return await calls.execute("submit_training", given, ask=ask)

    declined = await submit("declined", config=PATH)
    assert (declined.status, "The user declined" in declined.summary) == ("needs_confirmation", True)
    assert [(n.tool, n.arguments) for n in declined.next] == [
        ("write_training_config", {"based_on": PATH, "steps": 10}),
        ("check_training_config", {"path": PATH}),
    ]
    status = await calls.execute("workflow_status", {})
    assert "declined by the user" in status.summary
    assert status.data["declined"]["by"].startswith("the user")
    assert "submit_training" not in {n.tool for n in status.next}
    async with at.held_clock():
        changed = await calls.execute("write_training_config", dict(declined.next[0].arguments or {}))
        twice = await submit("declined", config=changed.data["path"])
        status = await calls.execute("workflow_status", {})
        # Also where no folder of the workspace is trained on.
        assert [(n.tool, n.arguments) for n in status.next] == [(n.tool, n.arguments) for n in twice.next]
        started = await submit("approved", config=changed.data["path"])
        assert started.status == "passed", started
        status = await calls.execute("workflow_status", {})
    assert [(n.tool, n.arguments) for n in status.next][:1] == [("watch_run", {"id": started.data["id"]})]
