"""A run on the page: its curves, anomalies and checkpoints, read once for everybody who looks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from prime_lab_mcp.dashboard import runs
from prime_lab_mcp.lab.base.errors import PrimeError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.watch import RunReading
from tests.tools.test_own_runs import written

pytestmark = pytest.mark.anyio


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> list[dict[str, Any]]:
    """What the platform was asked for. It tells of a run of 2,000 steps, half done."""
    lab.ledger.record_run(Run("run_1", "training", "sums", lab.key, "key", lab.platform, max_cost=9.0))
    asked: list[dict[str, Any]] = []
    rows = [{"step": step, "reward/mean": step / 2000, "eval/held/avg@4": 0.5} for step in range(1000)]

    async def watch_run(lab: Lab, id: str, known: Run | None, **given: Any) -> RunReading:
        asked.append({"id": id, **given})
        await anyio.lowlevel.checkpoint()
        return RunReading(
            {"status": "RUNNING", "max_steps": 2000},
            rows,
            {"total_cost_usd": 2.5},
            [{"step": 500, "id": "<b>ckpt</b>", "status": "READY"}],
            {},
            {},
            (Anomaly("stall", "stop", 900, "no step for an hour", "Stop it."),),
            {"logs": PrimeError("the logs are not there", fix="Wait.")},
        )

    monkeypatch.setattr(runs, "watch_run", watch_run)
    return asked


async def test_a_run_shows_its_curves_anomalies_checkpoints_and_money(
    page: httpx.AsyncClient, readings: list[dict[str, Any]]
) -> None:
    run = (await page.get("/api/runs/run_1")).json()
    assert (run["status"], run["step"], run["max_steps"], run["spend"], run["bound"]) == (
        "RUNNING",
        999,
        2000,
        2.5,
        9.0,
    )
    series = {one["name"]: one["points"] for one in run["series"]}
    assert series["reward"][0] == [0, 0.0]
    assert series["reward"][-1] == [999, 0.4995]
    assert len(series["reward"]) <= 601
    assert any(name.startswith("held-out") for name in series)
    assert [(one["code"], one["since_step"]) for one in run["anomalies"]] == [("stall", 900)]
    assert run["checkpoints"][0]["id"] == "<b>ckpt</b>"
    assert run["missing"] == {"logs": "the logs are not there"}
    assert run["live"] is True


async def test_everybody_who_looks_shares_one_reading_that_writes_nothing(
    page: httpx.AsyncClient, readings: list[dict[str, Any]]
) -> None:
    answers: list[int] = []

    async def look() -> None:
        answers.append((await page.get("/api/runs/run_1")).status_code)

    async with anyio.create_task_group() as viewers:
        for _ in range(5):
            viewers.start_soon(look)
    assert answers == [200] * 5
    assert readings == [{"id": "run_1", "count_cost": False}]


async def test_a_platform_that_does_not_answer_is_502_with_its_reason(
    page: httpx.AsyncClient, readings: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*given: Any, **more: Any) -> RunReading:
        raise PrimeError("the platform does not answer", fix="Try again.", code="platform-unreachable")

    monkeypatch.setattr(runs, "watch_run", silent)
    answer = await page.get("/api/runs/run_1")
    assert (answer.status_code, answer.json()["error"]) == (502, "the platform does not answer")


async def test_a_folder_that_is_no_run_of_the_workspace_hides_no_other(
    lab: Lab, page: httpx.AsyncClient, tmp_path: Path
) -> None:
    folder = written(lab.workspace.root, lambda step: step / 40, 12)
    outside = tmp_path / "outside"
    shutil.copytree(folder, outside)
    (folder.parent / "linked").symlink_to(outside)
    shutil.copytree(folder, folder.parent / "odd")
    odd = {"max_steps": "many", "model": {"name": ["x"]}, "orchestrator": {"train": {"source": 7}}}
    (folder.parent / "odd" / "configs" / "rl.json").write_text(json.dumps(odd), encoding="utf-8")
    listed = {run["name"]: run for run in (await page.get("/api/runs")).json()["runs"]}
    assert set(listed) == {folder.name, "odd"}
    assert (listed["odd"]["model"], listed["odd"]["max_steps"], listed["odd"]["environments"]) == ("", None, [])
    assert (await page.get("/api/runs/outputs%2Flinked")).status_code in (400, 404)
    assert (await page.get("/api/runs/outputs%2Fodd")).status_code == 200


async def test_the_list_says_how_a_run_ended_or_how_it_stood_when_it_was_last_read(
    page: httpx.AsyncClient, lab: Lab, readings: list[dict[str, Any]]
) -> None:
    ended = Run("run_2", "training", "sums", lab.key, "other", lab.platform, max_cost=9.0, data={"ended": "STOPPED"})
    lab.ledger.record_run(ended)

    async def listed() -> dict[str, str | None]:
        return {run["id"]: run["status"] for run in (await page.get("/api/runs")).json()["runs"]}

    assert await listed() == {"run_1": None, "run_2": "STOPPED"}
    assert readings == []
    await page.get("/api/runs/run_1")
    assert await listed() == {"run_1": "RUNNING", "run_2": "STOPPED"}
