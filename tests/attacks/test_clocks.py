"""Clocks that are set back or forward while evidence, money and jobs are recorded."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state.ledger.rows import Job, Push, Run
from tests.attacks.proven import NAME, proven_calls, record

pytestmark = pytest.mark.anyio

DAY = 86_400
FAILED: dict[str, Any] = {
    "status": "failed",
    "findings": [{"code": "reward-hackable", "severity": "blocker", "message": "paid for nothing"}],
}


async def test_a_clock_that_is_set_back_lets_no_older_pass_hide_a_new_failure(lab: Lab) -> None:
    calls = await proven_calls(lab)
    await record(lab, "test_reward", **FAILED, at=time.time() - DAY)
    report = await calls.execute("push_environment", {"environment": NAME})
    assert report.status == "blocked"
    assert ("test_reward", "failed") in {(unmet.tool, unmet.why) for unmet in report.unmet}
    status = (await calls.execute("workflow_status", {})).data["environments"][0]
    assert next(one["state"] for one in status["evidence"] if one["tool"] == "test_reward") == "failed"


async def test_a_clock_that_is_set_back_lets_no_older_failure_hide_a_new_pass(lab: Lab) -> None:
    calls = await proven_calls(lab)
    installed = {"distributions": await present_distributions(lab, await lab.snapshot(NAME))}
    await record(lab, "test_reward", **FAILED)
    await record(lab, "test_reward", at=time.time() - DAY, toolchain=installed)
    status = (await calls.execute("workflow_status", {})).data["environments"][0]
    assert next(one["state"] for one in status["evidence"] if one["tool"] == "test_reward") == "proven"


async def test_the_latest_push_and_run_are_those_that_were_recorded_last(lab: Lab) -> None:
    for number, at in enumerate((time.time(), time.time() - DAY)):
        version = f"0.1.{number}"
        lab.ledger.record_push(Push("w", NAME, "me", NAME, version, "s", "c", "h", "prime", at=at))
        lab.ledger.record_run(Run(version, "training", version, "w", version, "prime", at=at))
    assert [push.version for push in lab.ledger.pushes()] == ["0.1.1", "0.1.0"]
    assert [run.id for run in lab.ledger.runs()] == ["0.1.1", "0.1.0"]


async def test_a_run_whose_facts_are_recorded_again_stays_in_its_place(lab: Lab) -> None:
    for id in ("a", "b"):
        lab.ledger.record_run(Run(id, "training", id, "w", id, "prime"))
    lab.ledger.record_run(Run("a", "training", "a", "w", "a", "prime", data={"step": 3}))
    assert [(run.id, dict(run.data)) for run in lab.ledger.runs()] == [("b", {}), ("a", {"step": 3})]


async def test_a_clock_that_is_set_back_starts_no_evaluations_without_end_unasked(lab: Lab) -> None:
    ledger = lab.ledger
    assert ledger.reserve("asked", 4.0, "run_eval", "prime", None, asked=True)
    ledger.now = lambda: time.time() - DAY
    for number in range(3):
        assert ledger.reserve(f"unasked-{number}", 0.9, "run_eval", "prime", None, asked=False)
    assert ledger.unasked("prime") == pytest.approx(2.7)


async def test_an_intent_that_is_reserved_again_counts_from_its_new_place(lab: Lab) -> None:
    ledger = lab.ledger
    ledger.reserve("first", 0.9, "run_eval", "prime", None, asked=False)
    ledger.reserve("asked", 4.0, "run_eval", "prime", None, asked=True)
    ledger.reserve("first", 0.9, "run_eval", "prime", None, asked=False)
    assert ledger.unasked("prime") == pytest.approx(0.9)
    ledger.reserve("asked", 4.0, "run_eval", "prime", None, asked=True)
    assert ledger.unasked("prime") == 0
    assert ledger.spent("prime") == pytest.approx(4.9)


def _sleeping(argument: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", argument])


@pytest.mark.parametrize("ours", [True, False], ids=["its supervisor lives", "another program has its number"])
async def test_a_clock_that_is_set_forward_calls_no_living_evaluation_crashed(lab: Lab, ours: bool) -> None:
    evaluations = EvaluationJobs(lab)
    argument = str(evaluations.files("eval-1").root) if ours else "something else"
    with _sleeping(argument) as program:
        past = time.time() - DAY
        job = Job("eval-1", lab.key, NAME, "s", "c", "i", "running", program.pid, past, time.time() + DAY, None, {})
        lab.ledger.create_job(job)
        try:
            assert evaluations.get("eval-1").state == ("running" if ours else "crashed")
        finally:
            program.kill()
