"""A client over stdio proves an environment whose agent works with a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from prime_lab_mcp.lab.sandbox.containers.commands import LABEL, qualified
from tests.support.containers import why_no_podman

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


def skip_without_harness_in_containers() -> None:
    """Skip where the harness `bash` cannot be installed in a container of the template's image.

    The harness installs its program from the package index in each container, so a local image alone does not suffice.
    """
    if why_no_podman():
        pytest.skip(why_no_podman())
    install = "uv venv -q /tmp/v && uv pip install -q --python /tmp/v/bin/python certifi"
    tried = subprocess.run(
        [
            "podman",
            "run",
            "--rm",
            "--pull=never",
            "--http-proxy=false",
            qualified("python:3.11-slim"),
            "sh",
            "-c",
            install,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if tried.returncode != 0:
        pytest.skip(f"no image with uv that reaches the package index: {tried.stderr.strip()[-200:]}")


async def test_an_evaluation_runs_in_containers(tmp_path: Path) -> None:
    """The harness works in containers, and the model of the rehearsal follows the solutions there."""
    skip_without_harness_in_containers()
    call = {"environment": "boxed", "model": "Qwen/Qwen3-4B-Instruct-2507", "num_examples": 2, "rollouts": 2}
    async with Client(server(tmp_path), mode="auto") as client:
        await sandboxed(client)
        refused = await called(client, "run_eval", call)
        assert refused["findings"][0]["code"] == "eval-needs-sandbox"
        assert refused["next"][0]["arguments"]["runtime"] == "podman"
        report = await called(client, "run_eval", {**call, "runtime": "podman", "wait_seconds": 600})
    assert (report["data"]["completed"], report["data"]["errors"]) == (4, 0)
    assert report["data"]["distribution"]["tool_use"]["without_call"] < 4
    assert not {"confined", "eval-needs-sandbox", "eval-rollouts-raise"} & {f["code"] for f in report["findings"]}
    assert all(one["arguments"]["runtime"] == "podman" for one in report["next"] if one["tool"] == "run_eval")
    listed = ["podman", "ps", "--all", "--format", "{{.Labels}}"]
    left = subprocess.run(listed, capture_output=True, text=True, timeout=120, check=True).stdout  # noqa: ASYNC221
    assert f"{LABEL}:{report['data']['id']}" not in left
