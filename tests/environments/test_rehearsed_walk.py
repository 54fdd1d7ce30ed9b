"""An environment whose reward needs a tool, walked in rehearsal by a client over stdio, from the check to a run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

from tests.conftest import EXAMPLES

# A rollout with tools takes seconds of CPU, and 32 x 4 of them minutes.
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.stress]
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
NAME = "shop_orders"
_SOLVES = "def solution(self)"


async def agree(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"approve": True})


def server(workspace: Path) -> Any:
    shutil.copytree(EXAMPLES / NAME, workspace / "environments" / NAME)
    arguments = ["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(workspace)]
    state = ["--state-dir", str(workspace.parent / "state")]
    return stdio_client(StdioServerParameters(command=sys.executable, args=[*arguments, *state]))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The report of a call, which must pass."""
    report = dict((await client.call_tool(tool, arguments, read_timeout_seconds=500)).structured_content or {})
    assert report["status"] == "passed", (tool, report["summary"], report.get("findings"))
    return report


async def evaluated(client: Client, **sample: Any) -> dict[str, Any]:
    """The report of an evaluation that has ended, however long it takes."""
    arguments = {"environment": NAME, "model": MODEL, "wait_seconds": 400, **sample}
    with anyio.fail_after(1800):
        while True:
            result = await client.call_tool("run_eval", arguments, read_timeout_seconds=500)
            report = dict(result.structured_content or {})
            if report["status"] != "running":
                return report


def codes(report: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in report["findings"]}


async def test_a_tool_environment_with_solutions_reaches_a_submitted_run(tmp_path: Path) -> None:
    async with Client(server(tmp_path / "workspace"), elicitation_callback=agree) as client:
        await call(client, "check_environment", environment=NAME)
        await call(client, "test_reward", environment=NAME)
        found = await evaluated(client, num_examples=32, rollouts=4)
        assert found["status"] == "passed", found["findings"]
        assert 0.2 < found["data"]["mean_reward"] < 0.75
        assert not {"rehearsal-cannot-play", "tools-never-called"} & codes(found)
        await call(client, "check_reward_distribution", environment=NAME)
        pushed = (await call(client, "push_environment", environment=NAME, visibility="PRIVATE"))["data"]
        source = f"{pushed['owner']}/{pushed['name']}@{pushed['version']}"
        size = {"steps": 20, "batch": 64, "group": 16}
        written = await call(client, "write_training_config", environments=[source], model=MODEL, **size)
        await call(client, "test_reward", environment=NAME, env_args={"split": "eval"})
        submitted = await call(client, "submit_training", config=written["data"]["path"])
    assert submitted["data"]["id"]


async def test_without_solutions_the_report_says_that_the_model_cannot_use_the_tools(tmp_path: Path) -> None:
    async with Client(server(tmp_path / "workspace"), elicitation_callback=agree) as client:
        taskset = tmp_path / "workspace" / "environments" / NAME / NAME / "taskset.py"
        text = taskset.read_text(encoding="utf-8")
        assert _SOLVES in text
        taskset.write_text(text.replace(_SOLVES, "def worked_out(self)"), encoding="utf-8")
        report = await evaluated(client, num_examples=8, rollouts=2)
    assert report["data"]["mean_reward"] == 0.0
    assert "rehearsal-cannot-play" in codes(report)
