"""How long a running evaluation takes follows its own speed, not the estimate from before its start."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.measured import live_estimate, time_left_sentence
from prime_lab_mcp.lab.evals.spec import EvalSpec, MeasuredRollout
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.tools import watch_run
from tests.lab.evals.finished import SPEC
from tests.tools.test_run_eval import call_of

pytestmark = pytest.mark.anyio
FORESEEN = dataclasses.replace(
    SPEC, num_examples=30, tasks=200, concurrency=8, measured=MeasuredRollout(None, None, 19.0, "eval-before")
)
"""120 rollouts, eight at a time, of 19 seconds each: 4.7 or 4.8 minutes."""


def running(workspace: str, completed: int, ago: float, *, spec: EvalSpec = FORESEEN, **progress: Any) -> Job:
    """A job that began so many seconds ago."""
    now = time.time()
    attempt = {"at": now - ago, "completed": 0}
    told = {"completed": completed, "planned": spec.planned, "errors": 0, "attempt": attempt, **progress}
    return Job(
        id="eval-00000007",
        workspace=workspace,
        environment=spec.environment,
        source=spec.source,
        content=spec.content,
        intent=spec.intent,
        state="running",
        pid=None,
        lease=now + 60,
        deadline=now + 3600,
        platform=None,
        spec=spec.as_json(),
        progress=told,
        at=now - ago,
    )


@pytest.mark.parametrize(
    ("completed", "seconds", "low", "high"),
    [(8, 480, 60, 120), (60, 600, 8, 11), (60, 60, 0.8, 1.2), (2, 900, 200, 250), (0, 900, 200, 250)],
)
def test_minutes_follow_the_speed_of_the_evaluation(completed: int, seconds: float, low: float, high: float) -> None:
    estimate = live_estimate(FORESEEN, running("w", completed, seconds), time.time())
    assert low <= estimate["minutes_left"] <= high
    assert estimate["minutes"] == pytest.approx(seconds / 60 + estimate["minutes_left"], abs=0.15)


def test_the_estimate_from_before_the_start_holds_until_something_is_known() -> None:
    estimate = live_estimate(FORESEEN, running("w", 1, 10), time.time())
    assert estimate == FORESEEN.estimate


def test_rollouts_of_an_earlier_attempt_say_nothing_about_the_speed_of_this_one() -> None:
    job = running("w", 40, 60, attempt={"at": time.time() - 60, "completed": 36}, seconds=3000.0)
    estimate = live_estimate(FORESEEN, job, time.time())
    assert 8 <= estimate["minutes_left"] <= 11
    assert estimate["minutes"] > 50 + estimate["minutes_left"]


def test_an_evaluation_whose_time_ends_before_it_is_done_says_so() -> None:
    job = dataclasses.replace(running("w", 8, 960), deadline=time.time() + 1200)
    assert "Its time ends in 20 minutes; the same call then goes on with the rest." in time_left_sentence(
        FORESEEN, job, time.time()
    )


async def test_watch_run_shows_the_minutes_by_the_speed_so_far(lab: Lab) -> None:
    job = running(lab.key, 8, 480)
    lab.ledger.create_job(job)
    report = await watch_run.run(await call_of(lab, None), watch_run.Args(id=job.id))
    assert report.data["estimate"]["minutes"] > 60
    assert "At the speed so far it takes about" in report.summary
    assert "attempt" not in report.data
