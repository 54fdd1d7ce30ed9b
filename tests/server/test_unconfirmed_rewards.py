"""A finished evaluation whose rewards are not confirmed yet holds up no call that can do without, and opens no gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.rescore import confirmation
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.finished import episode, finished, mixed, record_confirmed
from tests.tools.test_workflow_status import folder, record, shown, states

pytestmark = pytest.mark.anyio
__all__ = ["folder"]
DIFFER = Finding("eval-rewards-differ", "blocker", "the rewards are others", "Mend it.")


class Scoring:
    """Stands for the worker that scores a sample again: it ends when `go` is set, with `findings`."""

    def __init__(self) -> None:
        self.begun, self.go = anyio.Event(), anyio.Event()
        self.findings: list[Finding] = []
        self.jobs: list[str] = []

    async def __call__(self, lab: Lab, source: Any, say: Any) -> list[Finding]:
        self.jobs.append(source.job.id)
        self.begun.set()
        await self.go.wait()
        return self.findings


@pytest.fixture
async def scoring(monkeypatch: pytest.MonkeyPatch) -> Scoring:
    stand_in = Scoring()
    monkeypatch.setattr(confirmation, "_findings", stand_in)
    return stand_in


async def ended(lab: Lab, id: str = "eval-00000001", **changes: Any) -> Job:
    """An evaluation of the present files that has just ended."""
    snapshot = await lab.snapshot("sums")
    named = {"environment": "sums", "source": snapshot.source, "content": snapshot.content}
    episodes = [episode(task, float(n % 2), answer=str(task)) for task in range(40) for n in range(4)]
    return finished(lab, episodes, id, confirmed=False, **named, **changes)


async def test_calls_that_need_no_verdict_answer_while_rewards_are_being_confirmed(
    lab: Lab, folder: Path, scoring: Scoring
) -> None:
    calls = Calls(lab, TOOLS, References())
    for tool in ("check_environment", "test_reward"):
        await record(lab, tool)
    job = await ended(lab)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calls.settle_in_background)
        with anyio.fail_after(20):
            found = await shown(lab)
            assert (await calls.execute("read_reference", {"topic": "guide/workflow"})).status == "passed"
            shows = await calls.execute("read_eval", {"eval": job.id})
            assert "eval-rewards-unconfirmed" in [f.code for f in shows.findings], shows
            await scoring.begun.wait()
        assert states(found)["push_environment"] == "closed"
        assert job.id in next(g["why"] for g in found["gates"] if g["tool"] == "push_environment")
        assert (found["next"]["tool"], found["next"]["arguments"]) == (
            "check_reward_distribution",
            {"environment": "sums"},
        )
        scoring.go.set()
        with anyio.fail_after(20):
            while not (settled := lab.ledger.job(job.id)) or not settled.judged:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert "being confirmed" not in str(await shown(lab))
    assert [row.status for row in lab.ledger.evidence(lab.key, tool="run_eval")] == ["passed"]
    assert scoring.jobs == [job.id]


async def test_a_push_waits_for_the_confirmation_and_is_refused_by_what_it_finds(
    lab: Lab, folder: Path, scoring: Scoring
) -> None:
    for tool in ("check_environment", "test_reward"):
        await record(lab, tool)
    scoring.findings = [DIFFER]
    await ended(lab, "eval-00000001")
    await ended(lab, "eval-00000002", model="other")
    async with anyio.create_task_group() as tasks:
        reports = []

        async def push() -> None:
            reports.append(await Calls(lab, TOOLS, References()).execute("push_environment", {"environment": "sums"}))

        tasks.start_soon(push)
        with anyio.fail_after(20):
            await scoring.begun.wait()
        assert reports == []
        scoring.go.set()
    [report] = reports
    assert report.status == "blocked", report
    assert "eval-rewards-differ" in report.unmet[0].detail
    assert scoring.jobs == ["eval-00000001", "eval-00000002"]


async def test_an_evaluation_whose_rewards_are_not_confirmed_is_never_recorded_as_a_pass(
    lab: Lab, folder: Path, scoring: Scoring
) -> None:
    job = await ended(lab)
    judged = verdict.judge_job(lab, job)
    assert (judged.status, judged.findings[-1].code) == ("inconclusive", "eval-rewards-unconfirmed")
    scoring.go.set()
    report = await Calls(lab, TOOLS, References()).execute("check_reward_distribution", {"results": job.id})
    assert report.status == "passed", report


async def test_a_job_that_was_resumed_while_its_rewards_were_confirmed_keeps_its_progress(
    lab: Lab, folder: Path, scoring: Scoring
) -> None:
    job = await ended(lab)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(confirmation.settle_evaluations, lab)
        with anyio.fail_after(20):
            await scoring.begun.wait()
        lab.ledger.update_job(job.id, state="running", progress={"completed": 3}, lease=job.lease + 1)
        scoring.go.set()
    resumed = lab.ledger.job(job.id)
    assert resumed is not None
    assert (resumed.judged, dict(resumed.progress)) == (False, {"completed": 3})
    assert lab.ledger.evidence(lab.key) == []


async def test_of_evaluations_judged_together_the_newest_gives_the_newest_row(lab: Lab) -> None:
    for id in ("eval-00000001", "eval-00000002"):
        finished(lab, mixed(), id)
    record_confirmed(lab)
    assert lab.ledger.evidence(lab.key, tool="run_eval")[0].data["id"] == "eval-00000002"
