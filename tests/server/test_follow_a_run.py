"""A client over stdio follows a run that it started, and hears of its steps: both eras, the real `prime`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.tools.loopback import CONFIG

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.rotate(share=2, group="eras of a client that follows"),
    pytest.mark.filterwarnings("ignore:resources/:mcp.MCPDeprecationWarning"),
]


def server(tmp_path: Path) -> Any:
    config = tmp_path / "workspace" / "configs" / "rl" / "followed.toml"
    config.parent.mkdir(parents=True)
    config.write_text('name = "followed"\n' + CONFIG.replace("max_steps = 20", "max_steps = 4000"), encoding="utf-8")
    args = ["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(tmp_path / "workspace")]
    return stdio_client(StdioServerParameters(command=sys.executable, args=[*args, "--state-dir", str(tmp_path / "s")]))


async def started(client: Client) -> str:
    """The id of a run, submitted with the token that a client gets which cannot ask."""
    given = {"config": "configs/rl/followed.toml"}
    asked = (await client.call_tool("submit_training", given)).structured_content
    assert asked is not None
    sent = (
        await client.call_tool("submit_training", {**given, "confirm": asked["data"]["confirm"]})
    ).structured_content
    assert sent is not None
    return str(sent["data"]["id"])


async def test_a_listener_of_the_newer_era(tmp_path: Path) -> None:
    async with Client(server(tmp_path), mode="auto") as client:
        uri = f"lab://runs/{await started(client)}"
        with anyio.fail_after(120):
            async with client.listen(resource_subscriptions=[uri]) as events:
                heard = [await anext(aiter(events)) for _ in range(2)]
        page = await client.read_resource(uri, cache_mode="refresh")
    assert {event.uri for event in heard} == {uri}  # type: ignore[union-attr]
    assert json.loads(page.contents[0].text)["data"]["status"] == "RUNNING"  # type: ignore[union-attr]


async def test_a_subscriber_of_the_older_era(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with Client(server(tmp_path), mode="legacy", message_handler=hear) as client:
        uri = f"lab://runs/{await started(client)}"
        await client.subscribe_resource(uri)
        with anyio.fail_after(120):
            while len(heard) < 2:
                await anyio.sleep(0.5)
    assert set(heard) == {uri}
