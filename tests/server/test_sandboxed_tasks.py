"""A client over stdio proves an environment whose agent works with a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:resources/:mcp.MCPDeprecationWarning"),
]

WITHOUT_IMAGE = ("                image=IMAGE,\n                workdir=WORKDIR,\n", "")


async def sandboxed(client: Client, *changes: tuple[str, str]) -> None:
    """Create the environment `boxed` from the template, and change its taskset."""
    await called(client, "create_environment", {"name": "boxed", "template": "sandboxed"})
    for old, new in changes:
        await called(
            client,
            "edit_environment",
            {"environment": "boxed", "path": "boxed/taskset.py", "old": old, "new": new},
        )


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    report = (await client.call_tool(tool, arguments)).structured_content
    assert report is not None
    return report


def server(tmp_path: Path) -> Any:
    (tmp_path / "w").mkdir()
    args = ["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(tmp_path / "w")]
    return stdio_client(StdioServerParameters(command=sys.executable, args=[*args, "--state-dir", str(tmp_path / "s")]))


async def test_a_solution_is_played_with_the_shell_of_the_harness(tmp_path: Path) -> None:
    async with Client(server(tmp_path), mode="auto") as client:
        await sandboxed(client, WITHOUT_IMAGE)
        report = await called(client, "test_reward", {"environment": "boxed", "examples": 1, "search": 0})
    found = {finding["code"]: finding for finding in report["findings"]}
    assert "reward-partly-tested" not in found
    assert "reward-gold-fails" not in found
    assert report["status"] == "passed"
