"""Two pages at once watch an evaluation and a run go on, each page a process of its own on one state directory."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.evals.finished import episode, finished, mixed
from tests.tools.test_own_runs import written

pytestmark = pytest.mark.anyio
RUN = "outputs/sums--qwen--ab12"


class Watcher:
    """A `dashboard` process, asked as its page asks it."""

    def __init__(self, lab: Lab) -> None:
        places = ["--workspace", str(lab.settings.workspace), "--state-dir", str(lab.settings.state_dir)]
        command = [sys.executable, "-m", "prime_lab_mcp", "dashboard", *places]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        link = urlsplit(self.process.stdout.readline().strip())
        token = link.fragment.removeprefix("token=")
        self.client = httpx.Client(
            base_url=f"http://{link.netloc}/api/", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        answer.raise_for_status()
        return answer.json()

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=60)


async def test_two_pages_see_an_evaluation_and_a_run_go_on(lab: Lab) -> None:
    job = finished(lab, mixed(4))
    running = lab.ledger.create_job(
        dataclasses.replace(job, id="eval-00000002", intent="other", state="running", progress={"planned": 8})
    )
    folder = written(lab.workspace.root, lambda step: step / 40, 12)
    watchers = [Watcher(lab), Watcher(lab)]
    try:
        assert [watcher.get("evaluations/eval-00000002")["state"] for watcher in watchers] == ["running"] * 2
        for completed in (3, 5):
            lab.ledger.update_job(running.id, progress={"planned": 8, "completed": completed})
            seen = [watcher.get("evaluations/eval-00000002") for watcher in watchers]
            assert [(one["completed"], one["planned"]) for one in seen] == [(completed, 8)] * 2
        runs = [watcher.get("runs")["runs"][0] for watcher in watchers]
        assert [(run["id"], run["model"], run["max_steps"]) for run in runs] == [(RUN, "Qwen/Qwen3-4B", 40)] * 2
        path = "runs/outputs%2F" + folder.name
        first = [watcher.get(path) for watcher in watchers]
        assert [(run["steps_done"], run["status"], run["live"]) for run in first] == [(12, "RUNNING", True)] * 2
        assert {one["name"] for one in first[0]["series"]} >= {"reward", "held-out sums"}
    finally:
        for watcher in watchers:
            watcher.close()


async def test_a_run_of_ones_own_is_one_of_outputs_only(lab: Lab, tmp_path: Path) -> None:
    written(lab.workspace.root, lambda step: step / 40, 12)
    (lab.workspace.root / "elsewhere").mkdir()
    (lab.workspace.root / "elsewhere" / "metrics.jsonl").write_text(json.dumps(episode(0, 1.0)), encoding="utf-8")
    watcher = Watcher(lab)
    try:
        answers = [
            watcher.client.get(f"runs/{path}").status_code
            for path in ("outputs%2F..", "outputs%2F..%2Felsewhere", "elsewhere", "outputs%2Fnone", f"outputs%2F{RUN}")
        ]
    finally:
        watcher.close()
    assert answers == [404] * 5
