"""An endpoint that is gone while an evaluation at it runs, or after one has finished."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.tools import run_eval
from tests.attacks.proven import NAME, proven_calls
from tests.lab.evals.test_spec import SPEC

pytestmark = pytest.mark.anyio
CLOSED = "http://127.0.0.1:1/v1"
CALL = {"environment": NAME, "model": "m", "endpoint": CLOSED, "wait_seconds": 0}


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> EvalSpec:
    """What is measured, without the worker that loads the environment to find out."""
    fixed = dataclasses.replace(SPEC, environment=NAME, endpoint=Endpoint("url", CLOSED))

    async def planned(*_: Any) -> EvalSpec:
        return fixed

    monkeypatch.setattr(run_eval, "_spec", planned)
    return fixed


@contextmanager
def running(lab: Lab, spec: EvalSpec) -> Iterator[str]:
    id = "eval-00000007"
    argument = str(EvaluationJobs(lab).files(id).root)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", argument]) as supervisor:
        until = time.time() + 60
        job = Job(
            id, lab.key, NAME, spec.source, spec.content, spec.intent, "running", supervisor.pid, until, until, None,
            spec.as_json(), {"completed": 1, "planned": spec.planned, "errors": 0},
        )  # fmt: skip
        lab.ledger.create_job(job)
        try:
            yield id
        finally:
            supervisor.kill()


async def test_a_call_attaches_to_the_running_evaluation_although_its_endpoint_is_gone(
    lab: Lab, spec: EvalSpec
) -> None:
    calls = await proven_calls(lab)
    with running(lab, spec) as id:
        report = await calls.execute("run_eval", CALL)
    assert (report.status, report.data.get("id")) == ("running", id)


async def test_a_new_evaluation_at_an_endpoint_that_is_gone_is_refused(lab: Lab, spec: EvalSpec) -> None:
    calls = await proven_calls(lab)
    report = await calls.execute("run_eval", CALL)
    assert report.status == "error"
    assert {finding.code for finding in report.findings} == {"endpoint-unreachable"}
    assert lab.ledger.jobs() == []
