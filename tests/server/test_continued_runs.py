"""A client over stdio stops, pauses and goes on with a run, and asks whether the trained model got better."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.tools.loopback import CONFIG

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=6, group="whole walks")]
PATH = "configs/rl/mine.toml"


def server(tmp_path: Path, steps: int) -> Any:
    config = tmp_path / "workspace" / PATH
    config.parent.mkdir(parents=True)
    config.write_text('name = "mine"\n' + CONFIG.replace("max_steps = 20", f"max_steps = {steps}"), encoding="utf-8")
    args = ["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(tmp_path / "workspace")]
    return stdio_client(StdioServerParameters(command=sys.executable, args=[*args, "--state-dir", str(tmp_path / "s")]))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The report of a call that the user agrees to."""
    report = (await client.call_tool(tool, arguments)).structured_content
    assert report is not None
    if report["status"] == "needs_confirmation":
        report = (await client.call_tool(tool, {**arguments, "confirm": report["data"]["confirm"]})).structured_content
    assert report is not None
    return dict(report)


async def reached(client: Client, id: str, *statuses: str) -> dict[str, Any]:
    with anyio.fail_after(180):
        while (report := await call(client, "watch_run", id=id))["data"]["status"] not in statuses:
            await anyio.sleep(1)
    return report


def calls(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(step["tool"], step.get("arguments") or {}) for step in report["next"]]


async def test_a_resumed_run_is_followed_instead_of_the_paused_one_and_a_stopped_one_is_started_anew(
    tmp_path: Path,
) -> None:
    async with Client(server(tmp_path, 4000), mode="auto") as client:
        id = (await call(client, "submit_training", config=PATH))["data"]["id"]
        await reached(client, id, "RUNNING")
        await call(client, "control_run", id=id, action="pause")
        paused = await reached(client, id, "PAUSED")
        assert calls(paused)[0] == ("control_run", {"id": id, "action": "resume"})
        assert "the run was paused after" in paused["summary"]
        became = (await call(client, "control_run", id=id, action="resume"))["data"]["id"]
        left = await call(client, "watch_run", id=id)
        assert calls(left) == [("watch_run", {"id": became})]
        assert f"goes on as {became}" in left["summary"]
        await reached(client, became, "RUNNING")
        assert (await call(client, "control_run", id=became, action="stop"))["data"]["status"] == "STOPPED"
        stopped = await call(client, "watch_run", id=became)
        assert stopped["data"]["resumed_from"] == [id]
        again = ("submit_training", {"config": PATH, "again": True})
        assert again in calls(stopped)
        for action in ("resume", "restart"):
            refused = await call(client, "control_run", id=became, action=action)
            assert calls(refused)[0] == again, action
        refused = await call(client, "submit_training", config=PATH, resume_from=became)
        assert calls(refused)[0] == again


async def test_a_rise_on_tasks_that_were_trained_on_is_not_called_better(tmp_path: Path) -> None:
    async with Client(server(tmp_path, 20), mode="auto") as client:
        id = (await call(client, "submit_training", config=PATH))["data"]["id"]
        before = await reached(client, id, "COMPLETED")
        (pull,) = [arguments for tool, arguments in calls(before) if tool == "create_environment"]
        await call(client, "create_environment", **pull)
        offered = await call(client, "watch_run", id=id)
        (given,) = [arguments for tool, arguments in calls(offered) if tool == "run_eval"]
        small = {**given, "num_examples": 16, "rollouts": 4, "wait_seconds": 240}
        evaluated = await call(client, "run_eval", **small)
        assert "on tasks that it may have been trained on" in evaluated["summary"]
        after = await call(client, "watch_run", id=id)
    assert after["data"]["after"]["worked"] == "not held out", after["data"]["after"]
    assert "is not known: the checkpoint against the base model" in after["summary"]
    assert "It worked" not in after["summary"]
    assert calls(after)[0] == ("read_environment", {"environment": given["environment"]})


async def test_a_config_for_an_environment_of_the_hub_says_that_nothing_held_out_is_known(tmp_path: Path) -> None:
    async with Client(server(tmp_path, 20), mode="auto") as client:
        hub = ["primeintellect/reverse-text@0.2.0"]
        written = await call(client, "write_training_config", environments=hub)
        assert "It evaluates no held-out tasks" in written["summary"]
        path = written["data"]["path"]
        pull = ("create_environment", {"name": "reverse_text", "hub": "primeintellect/reverse-text@0.2.0"})
        assert calls(written) == [("check_training_config", {"path": path}), pull]  # the wallet's sum is nobody's wish
        checked = await call(client, "check_training_config", path=path)
        assert calls(checked) == [("submit_training", {"config": path}), pull]
        status = await call(client, "workflow_status")
        assert calls(status) == [("check_training_config", {"path": path})]
        lost = await call(client, "control_run", id="run_gone", action="pause")
        assert [finding["code"] for finding in lost["findings"]] == ["run-not-found"]
        assert calls(lost) == [("watch_run", {})]
