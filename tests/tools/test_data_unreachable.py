"""Data that this machine cannot reach proves nothing, and every tool that loads the environment says so to a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.lab.rewards.packages import SOUND, write

pytestmark = pytest.mark.anyio
UNREACHABLE = "raise ConnectionError(\"Couldn't reach 'some/dataset' on the Hub\")"


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[Client]:
    """A client of a server with two environments: `offline` never loads, `partly` loads with its default size only."""
    lab = Lab(settings)
    for name, line, more in (
        ("offline", "import time\n", UNREACHABLE),
        ("partly", "    def load(self):\n", f"        if self.config.size != 70:\n            {UNREACHABLE}"),
    ):
        module = write(lab, name, SOUND) / f"{name}.py"
        text = module.read_text(encoding="utf-8")
        assert line in text
        module.write_text(text.replace(line, f"{line}{more}\n"), encoding="utf-8")
    async with Client(build_server(lab)) as opened:
        yield opened


async def report(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    assert not result.is_error
    return result.structured_content


@pytest.mark.slow
async def test_unreachable_data_is_inconclusive_in_every_tool_that_loads_the_environment(client: Client) -> None:
    reports = {
        "check_environment": await report(client, "check_environment", environment="offline"),
        "test_reward": await report(client, "test_reward", environment="partly", env_args={"size": 9}, probes=False),
        "same_as": await report(client, "test_reward", environment="partly", same_as="offline", probes=False),
    }
    for name, answer in reports.items():
        blockers = [f for f in answer["findings"] if f["severity"] == "blocker"]
        assert (name, answer["status"]) == (name, "inconclusive")
        assert [f["code"] for f in blockers] == ["data-unreachable"], name
        assert "some/dataset" in blockers[0]["message"]
        assert answer["next"], name
