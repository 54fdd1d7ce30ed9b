"""watch_run over a self-managed run: files in the form that prime-rl writes, read through a client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.training.own_runs import read_own_run
from prime_lab_mcp.tools import watch_run
from tests.lab.evals.finished import episode
from tests.tools.test_run_eval import call_of

pytestmark = pytest.mark.anyio
AGENT = "train/agg/effective/agent"


def written(root: Path, reward: Callable[[int], float], steps: int, *, of: int = 40, ago: float = 5.0) -> Path:
    """A run as prime-rl 559b4477 leaves it: the orchestrator and the trainer each log a row for a step."""
    folder = root / "outputs" / "sums--qwen--ab12"
    (folder / "configs").mkdir(parents=True)
    source = [{"name": "sums", "env": {"taskset": {"id": "me/sums@0.1.0"}}}]
    config = {"max_steps": of, "model": {"name": "Qwen/Qwen3-4B"}, "orchestrator": {"train": {"source": source}}}
    (folder / "configs" / "rl.json").write_text(json.dumps(config), encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        at = {"step": step, "time": time.time() - ago - 60 * (steps - step)}
        tokens = {"train/agg/effective/num_output_tokens/mean": 50.0}
        rows.append({**at, f"{AGENT}/reward/mean": reward(step), f"{AGENT}/is_truncated/mean": 0.0, **tokens})
        rows.append({**at, "optim/grad_norm": 0.2, "entropy/all/mean": 0.5, "time/step": 60.0})
    rows.append({"step": steps, "time": time.time() - ago, "eval/sums/effective/agent/reward/mean": 0.7})
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"step": 99, "ti'
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    (folder / "checkpoints" / f"step_{steps}").mkdir(parents=True)
    traces(folder, steps, [episode(t, float(t % 2), f"it is {t}") for t in range(6)])
    return folder


def traces(folder: Path, step: int, episodes: Sequence[dict[str, Any]]) -> None:
    path = folder / "rollouts" / f"step_{step}" / "train" / "effective" / "traces.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps({**e, "env": {"id": "sums"}}) + "\n" for e in episodes), encoding="utf-8")


async def watched(lab: Lab, **given: Any) -> Any:
    return await watch_run.run(await call_of(lab, None), watch_run.Args.model_validate(given))


async def test_a_run_that_goes_on_shows_metrics_rollouts_and_checkpoints(lab: Lab) -> None:
    written(lab.workspace.root, lambda step: 0.3 + step / 100, 20)
    for id in ("outputs/sums--qwen--ab12", "sums--qwen--ab12"):
        found = await watched(lab, id=id)
        assert (found.status, found.data["kind"]) == ("running", "self-managed")
        assert "20 of 40 steps, reward 0.31 -> 0.50" in found.summary
        assert found.data["held_out"]["sums"]["last"] == [20, 0.7]
        assert found.data["checkpoints"] == [{"step": 20, "id": "checkpoints/step_20", "status": "READY"}]
        best = found.data["rollouts"]["best"][0]
        assert (best["reward"], best["task"], best["asked"]) == (1.0, '"row 1"', '"2+2?"')
        assert (found.data["anomalies"], found.data["environments"]) == ([], ["me/sums@0.1.0"])
        assert [one.tool for one in found.next] == ["watch_run"]


async def test_the_anomaly_rules_of_hosted_runs_hold(lab: Lab) -> None:
    written(lab.workspace.root, lambda step: 0.6 if step < 20 else 0.05, 32)
    found = await watched(lab, id="outputs/sums--qwen--ab12")
    assert [f.code for f in found.findings] == ["run-reward-collapse"]
    assert found.summary.endswith("; look at reward-collapse.")


async def test_a_run_that_writes_nothing_more_is_stalled_and_no_tool_is_named_that_cannot_help(lab: Lab) -> None:
    written(lab.workspace.root, lambda step: 0.5, 12, ago=7200)
    found = await watched(lab, id="outputs/sums--qwen--ab12")
    assert [f.code for f in found.findings] == ["run-stall"]
    assert "control_run" not in json.dumps([f.as_json() for f in found.findings])


async def test_an_ended_run_passes_and_is_listed(lab: Lab) -> None:
    written(lab.workspace.root, lambda step: step / 50, 40, ago=7200)
    found = await watched(lab, id="outputs/sums--qwen--ab12")
    assert (found.status, found.data["status"]) == ("passed", "COMPLETED")
    assert (found.next[0].tool, found.findings) == ("read_reference", ())


async def test_what_is_no_run_is_refused_with_what_to_name(lab: Lab) -> None:
    (lab.workspace.root / "outputs" / "empty").mkdir(parents=True)
    for id in ("outputs/empty", "outputs/none"):
        with pytest.raises(LabError, match="metrics") as refused:
            await watched(lab, id=id)
        assert refused.value.code == "run-not-found"
    with pytest.raises(LabError, match="outside"):
        await watched(lab, id="../outputs/run")


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    folder = written(tmp_path, lambda step: 0.5, 5)
    (folder / "metrics.jsonl").rename(tmp_path / "elsewhere")
    (folder / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PlantedPath):
        read_own_run(folder)
