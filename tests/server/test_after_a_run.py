"""After a run: its checkpoint against the model before, on the same held-out tasks, with the real programs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.report import Report
from tests.server.test_paths import MODEL, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=6, group="whole walks")]
EXAMPLE = Path(__file__).parents[2] / "environments" / "ticket_routing"


async def ended(call: Any, id: str) -> Report:
    """The run's report once it is COMPLETED: seconds in a rehearsal."""
    with anyio.fail_after(120):
        while (report := await call("watch_run", ("running", "passed"), id=id)).status == "running":
            await anyio.sleep(3)  # each look starts prime several times
    assert isinstance(report, Report)
    return report


async def test_the_trained_model_is_compared_with_the_one_before_on_held_out_tasks(tmp_path: Path) -> None:
    async with opened(tmp_path, rehearsal=True) as (settings, call):
        shutil.copytree(EXAMPLE, settings.workspace / "environments" / "ticket_routing")
        named = {"environment": "ticket_routing"}
        await call("test_reward", "passed", **named)
        await call("run_eval", "passed", **named, model=MODEL, num_examples=48, wait_seconds=120)
        await call("push_environment", "passed", **named)
        refused = await call("submit_training", "blocked", **named, model=MODEL, steps=20)
        assert [(n.tool, n.arguments) for n in refused.next] == [
            ("test_reward", {**named, "env_args": {"split": "test"}}),
        ]
        await call("test_reward", "passed", **dict(refused.next[0].arguments or {}))
        submitted = await call("submit_training", "passed", **named, model=MODEL, steps=20)
        id = submitted.data["id"]
        before = await ended(call, id)
        assert before.data["after"]["worked"] == "yes", before.data["after"]
        assert "the run's own evaluations" in before.data["after"]["because"]
        asked = [step for step in before.next if step.tool == "run_eval"]
        (step,) = asked
        assert (step.arguments["model"], step.arguments["compare_base"]) == (before.data["after"]["served_as"], True)
        given = {**step.arguments, "num_examples": 35, "rollouts": 4, "wait_seconds": 240}
        dry = await call("run_eval", "passed", **given, dry_run=True)
        assert dry.data["models"] == [before.data["after"]["served_as"], MODEL]
        assert (dry.data["tasks"], dry.data["existing"], dry.data["evidence"]["opens"]) == (35, 0, [])
        assert dry.next[0].arguments == given
        both = await call("run_eval", ("passed", "inconclusive"), **given)
        assert both.data["result"]["before"]["model"] == MODEL
        assert both.data["result"]["difference"]["low"] > 0
        after = await ended(call, id)
    assert after.data["after"]["worked"] == "yes", after.data["after"]
    (found,) = after.data["after"]["comparisons"]
    assert found["held_out"]
    assert found["tasks"] == 35
    assert found["difference"]["low"] > 0
    assert "paired by task on held-out tasks" in after.data["after"]["because"]
    assert [(step.tool, step.arguments["view"]) for step in after.next] == [("read_eval", "compare")]
