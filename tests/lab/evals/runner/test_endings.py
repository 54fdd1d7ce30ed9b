"""Failures of evaluations are reported for what they are: each by its own code, with counts and a way on."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.outcomes import broken_outcome, finished_outcome, size_and_cost_summary
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Price
from prime_lab_mcp.lab.state.ledger.rows import Job
from tests.lab.evals.conftest import Specified
from tests.lab.evals.finished import record_confirmed
from tests.lab.evals.runner.test_jobs import processes_naming, quiet
from tests.lab.evals.runner.test_resume import PATIENCE, Meter, finished, program_killed, until
from tests.lab.evals.scripted import Reply, adds, serving
from tests.lab.evals.test_spec import SPEC


def job(state: str = "finished", **progress: Any) -> Job:
    return Job(
        "eval-1",
        "w",
        "sums",
        "s",
        "c",
        "i",
        state,
        None,
        0.0,
        0.0,
        None,
        SPEC.as_json(),
        progress,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("errors", "code", "fix"),
    [
        ({"connect": 4}, "eval-endpoint-dead", "preflight"),
        ({"dns": 4}, "eval-endpoint-dead", "preflight"),
        ({"timeout": 4}, "eval-timeouts", "concurrency=8"),
        ({"429": 4}, "eval-rate-limited", "concurrency=8"),
        ({"500": 2, "503": 2}, "eval-endpoint-failing", "recovered"),
        ({"401": 4}, "eval-key-refused", "key"),
        ({"403": 4}, "eval-key-refused", "key"),
        ({"402": 4}, "eval-payment-required", "top up"),
        ({"404": 4}, "eval-model-not-served", "search_hub"),
        ({"context": 4}, "eval-context-exceeded", "max_tokens"),
        ({"422": 4}, "eval-request-rejected", "last_error"),
    ],
)
def test_every_failed_request_has_a_cause_with_counts_and_a_way_on(
    errors: Mapping[str, int], code: str, fix: str
) -> None:
    (found,) = endings.failure_findings(SPEC, job(requests=9, errors=4, completed=4, request_errors=errors))
    assert (found.code, found.severity) == (code, "warning")
    assert "4 of 9 requests failed so" in found.message
    assert "100% of all that failed" in found.message
    assert fix in found.fix


def test_the_dominating_cause_comes_first_with_its_share() -> None:
    met = endings.failure_findings(SPEC, job(requests=40, errors=5, request_errors={"503": 3, "429": 9}, capped=0))
    assert [f.code for f in met] == ["eval-rate-limited", "eval-endpoint-failing"]
    assert "75% of all that failed" in met[0].message


def test_what_was_repeated_with_success_is_information() -> None:
    met = endings.failure_findings(
        SPEC, job(requests=9, errors=0, request_errors={"503": 1}, rate_limited=3, half_written=1)
    )
    assert [(f.code, f.severity) for f in met] == [
        ("eval-endpoint-failing", "info"),
        ("eval-rate-limited", "info"),
        ("eval-half-written", "info"),
    ]


def test_rollouts_that_fail_without_a_failed_request_are_the_environments() -> None:
    rows = [{"error": "'TaskError: boom'", "rollouts": 3}]
    (found,) = endings.failure_findings(
        SPEC, job(requests=9, errors=3, completed=4, request_errors={}, rollout_errors=rows)
    )
    assert found.code == "eval-rollouts-raise"
    assert "3 of 4 rollouts failed" in found.message
    assert "TaskError: boom" in found.message


def test_a_cap_stops_a_live_job_for_all_to_see() -> None:
    (found,) = endings.failure_findings(SPEC, job("running", requests=9, capped=4))
    assert (found.code, "cap" in found.message) == ("eval-capped", True)


@pytest.mark.parametrize("cause", ["eval-disk-full", "eval-out-of-memory", "eval-deadline", "eval-endpoint-dead", None])
def test_a_broken_job_says_why_and_that_it_resumes(cause: str | None) -> None:
    found = endings.broken_finding(SPEC, job("crashed", cause=cause, reason="it broke"))
    assert (found.code, found.severity) == (cause or "eval-crashed", "blocker")
    assert "it broke" in found.message
    assert "resumes it without repeating" in found.fix
    old = dataclasses.replace(SPEC, api="v0", verifiers="0.1.3")
    assert "cannot resume" in endings.broken_finding(old, job("crashed")).fix


@pytest.mark.parametrize(
    ("code", "errors", "cause"),
    [
        (1, "Traceback ...\nOSError: [Errno 28] No space left on device", "eval-disk-full"),
        (1, "MemoryError", "eval-out-of-memory"),
        (137, "", "eval-killed"),
        (1, "ValueError: no such split", None),
    ],
)
def test_how_a_program_ended_tells_the_cause(tmp_path: Path, code: int, errors: str, cause: str | None) -> None:
    found = endings.ending_of_exit(code, errors, tmp_path, endings.memory_kills())
    assert found is not None
    assert (found.state, found.cause) == ("crashed", cause)
    assert endings.ending_of_exit(137, "", tmp_path, -1) == endings.AttemptEnding(
        "crashed", "the system killed vf-eval because memory ran out", "eval-out-of-memory"
    )


def test_the_estimate_is_said_before_it_starts() -> None:
    spec = dataclasses.replace(SPEC, prompt_tokens=100)
    assert spec.estimate == {
        "rollouts": 160,
        "tokens": {"prompt": 16_000, "completion": 10_240},
        "basis": "one turn each",
        "cost": pytest.approx(0.03648, abs=1e-4),
    }
    said = size_and_cost_summary(spec)
    assert "20 tasks x 8 = 160 rollouts" in said
    assert "26,240 tokens, $0.04 with one turn each" in said
    limited = size_and_cost_summary(dataclasses.replace(spec, max_cost=0.146))
    assert "$0.04 with one turn each (at most $0.15)" in limited


async def ended(lab: Lab, specified: Specified, reply: Reply, **given: Any) -> Job:
    with serving(reply) as model:
        started = await EvaluationJobs(lab).start(specified(model.url, **given), "k")
        return await EvaluationJobs(lab).wait(started.id, PATIENCE, quiet)


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_endpoint_that_is_dead_from_the_start_ends_the_job_early(lab: Lab, specified: Specified) -> None:
    spec = specified("http://127.0.0.1:9/v1", tasks=40, rollouts=8, concurrency=4, deadline_s=600.0)
    started = await EvaluationJobs(lab).start(spec, None)
    found = await EvaluationJobs(lab).wait(started.id, PATIENCE, quiet)
    report = broken_outcome(lab, found)

    assert (found.state, found.progress["cause"]) == ("stopped", "eval-endpoint-dead"), found.progress
    assert found.progress["completed"] < 320
    assert "did not answer" in report.summary
    assert [f.code for f in report.findings if f.severity == "blocker"] == ["eval-endpoint-dead"]
    with serving(adds) as model:
        # Once it answers, nothing is lost: as many rollouts run as are wanted.
        again = await EvaluationJobs(lab).start(dataclasses.replace(spec, endpoint=spec.endpoint), None)
        assert again.id == started.id
        await EvaluationJobs(lab).stop(again.id)
        assert not model.requests


@pytest.mark.rotate(share=2)
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(("status", "code"), [(401, "eval-key-refused"), (404, "eval-model-not-served")])
async def test_an_endpoint_that_refuses_everything_ends_the_job_early(
    lab: Lab, specified: Specified, status: int, code: str
) -> None:
    found = await ended(lab, specified, lambda body, before: status, tasks=40, rollouts=8, concurrency=4)
    assert (found.state, found.progress["cause"]) == ("stopped", code), found.progress
    assert str(status) in found.progress["reason"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_5xx_storm_is_named_with_its_share_although_vf_eval_ends_well(lab: Lab, specified: Specified) -> None:
    found = await ended(lab, specified, lambda body, before: 500, tasks=2, rollouts=1)
    judged = verdict.judge_job(lab, found)
    report = finished_outcome(lab, found, judged)

    assert found.state == "finished"
    assert report.status == "inconclusive"
    assert [f.code for f in report.findings][:2] == ["eval-all-errors", "eval-endpoint-failing"]
    assert "100% of all that failed" in report.summary
    assert report.data["rollout_errors"][0]["rollouts"] == 2


@pytest.mark.slow
@pytest.mark.anyio
async def test_after_an_endpoint_broke_in_the_middle_the_same_call_plays_what_failed(
    lab: Lab, specified: Specified
) -> None:
    def breaks(body: dict[str, Any], before: int) -> str | int:
        return adds(body, before) if sum(model.asked.values()) <= 4 else 500

    with serving(breaks) as model:
        spec = specified(model.url, concurrency=1)
        started = await EvaluationJobs(lab).start(spec, None)
        first = await EvaluationJobs(lab).wait(started.id, PATIENCE, quiet)
        failed = first.progress["errors"]
        record_confirmed(lab)
        model.reply, asked = adds, sum(model.asked.values())
        again = await EvaluationJobs(lab).start(spec, None)
        ended = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) - asked == failed
    assert (first.state, again.id) == ("finished", started.id)
    assert 0 < failed < first.progress["completed"]
    assert (ended.state, ended.progress["completed"], ended.progress["errors"]) == ("finished", 8, 0)
    assert not ended.judged


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_burst_of_429_fails_no_rollout_and_is_told(lab: Lab, specified: Specified) -> None:
    def limited(body: dict[str, Any], before: int) -> str | int:
        return 429 if before == 0 else adds(body, before)

    with serving(limited, retry_after="0.2") as model:
        started = await EvaluationJobs(lab).start(specified(model.url, tasks=3, rollouts=2), None)
        found = await EvaluationJobs(lab).wait(started.id, PATIENCE, quiet)

    assert (found.state, found.progress["completed"], found.progress["errors"]) == ("finished", 6, 0)
    assert (found.progress["rate_limited"], found.progress["request_errors"]) == (3, {})
    told = [
        f for f in endings.failure_findings(EvaluationJobs(lab).spec(found), found) if f.code == "eval-rate-limited"
    ]
    assert [f.severity for f in told] == ["info"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_cap_that_is_reached_is_a_finding(lab: Lab, specified: Specified) -> None:
    found = await ended(lab, specified, adds, tasks=4, rollouts=2, max_cost=0.0002, price=Price(1.0, 1.0))
    judged = verdict.judge_job(lab, found)
    assert found.progress["capped"]
    assert "eval-capped" in {f.code for f in judged.findings}
    assert judged.status != "passed"


@pytest.mark.cold
@pytest.mark.slow
@pytest.mark.anyio
async def test_a_killed_vf_eval_is_told_as_that_and_goes_on(lab: Lab, specified: Specified) -> None:
    meter = Meter()
    with serving(meter.reply) as model:
        meter.allow(2)
        started = await EvaluationJobs(lab).start(specified(model.url), None)
        await until(lambda: len(finished(lab, started)) == 2)
        await program_killed(lab, EvaluationJobs(lab).get(started.id))
        meter.release()
    found = EvaluationJobs(lab).get(started.id)
    assert (found.state, found.progress["cause"]) == ("crashed", "eval-killed"), found.progress


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_full_disk_is_told_as_that_and_keeps_what_is_finished(lab: Lab, specified: Specified) -> None:
    meter = Meter()
    with serving(meter.reply) as model:
        meter.allow(2)
        spec = specified(model.url)
        started = await EvaluationJobs(lab).start(spec, None)
        await until(lambda: len(finished(lab, started)) == 2)
        results = EvaluationJobs(lab).results_path(started.id)
        kept = results.with_name("kept")
        # The kernel's own ENOSPC, without filling a disk.
        results.rename(kept)
        results.symlink_to("/dev/full")
        meter.allow(6)
        found = await EvaluationJobs(lab).wait(started.id, PATIENCE, quiet)
        results.unlink()
        kept.rename(results)
        asked = sum(model.asked.values())
        meter.allow(6)
        again = await EvaluationJobs(lab).start(spec, None)
        after = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) - asked == 6

    assert (found.state, found.progress["cause"]) == ("crashed", "eval-disk-full"), found.progress
    assert (again.id, after.state, after.progress["completed"]) == (started.id, "finished", 8)


@pytest.mark.anyio
async def test_a_ledger_that_cannot_be_written_leaves_its_cause_in_the_log(lab: Lab) -> None:
    now = time.time()
    ghost = dataclasses.replace(
        job("running"), id="eval-ghost", workspace=lab.key, pid=999_999_999, lease=now + 60, deadline=now + 60
    )
    lab.ledger.create_job(ghost)
    log = EvaluationJobs(lab).files("eval-ghost").log
    log.parent.mkdir(parents=True)
    log.write_text(f"{sqlite3.OperationalError.__name__}: database or disk is full", encoding="utf-8")

    found = EvaluationJobs(lab).get("eval-ghost")

    assert (found.state, found.progress["cause"]) == ("crashed", "eval-disk-full")


@pytest.mark.cold
@pytest.mark.slow
@pytest.mark.anyio
async def test_a_killed_guard_leaves_no_vf_eval_behind(lab: Lab, specified: Specified) -> None:
    meter = Meter()
    with serving(meter.reply) as model:
        started = await EvaluationJobs(lab).start(specified(model.url), None)
        await until(model.arrived.is_set)
        root = str(EvaluationJobs(lab).files(started.id).root)
        for pid in [
            p for p in processes_naming(root) if b"evals.runner.guard" in Path(f"/proc/{p}/cmdline").read_bytes()
        ]:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not processes_naming(root))
        meter.release()
    assert EvaluationJobs(lab).get(started.id).state == "crashed"


IN_PODMAN = dataclasses.replace(SPEC, harness="bash", runtime="podman")
_NO_SPACE = "Error: creating container storage: no space left on device"


@pytest.mark.parametrize(
    ("report", "code", "says"),
    [
        ({"started": 3, "failed": {_NO_SPACE: 5}, "refused": {}}, "eval-needs-sandbox", "no space left on device"),
        ({"started": 0, "failed": {}, "refused": {"the option '--device' is not allowed": 5}}, "confined", "--device"),
    ],
)
def test_containers_that_fail_are_no_fault_of_the_environment(report: dict[str, Any], code: str, says: str) -> None:
    errors = [{"error": f"SandboxError: podman run failed: {says}", "rollouts": 5}]
    ran = job(completed=8, planned=8, errors=5, rollout_errors=errors, containers=report)
    (finding,) = endings.failure_findings(IN_PODMAN, ran)
    assert (finding.code, finding.severity) == (code, "warning")
    assert says in finding.message
    assert "5 rollouts failed for that, which proves nothing about the environment" in finding.message
    mixed = dataclasses.replace(
        ran, progress={**ran.progress, "rollout_errors": [*errors, {"error": "KeyError: 'board'", "rollouts": 1}]}
    )
    assert [f.code for f in endings.failure_findings(IN_PODMAN, mixed)] == [code, "eval-rollouts-raise"]


def test_a_container_that_begins_too_late_is_no_fault_of_the_environment() -> None:
    error = "SandboxError: podman run did not end within 120 seconds"
    ran = job(completed=33, planned=120, errors=1, rollout_errors=[{"error": error, "rollouts": 1}], containers={})
    assert [f.code for f in endings.failure_findings(IN_PODMAN, ran)] == ["eval-needs-sandbox"]


def test_containers_that_failed_and_were_started_again_are_not_mentioned() -> None:
    report = {"started": 8, "failed": {_NO_SPACE: 1}, "refused": {}}
    assert list(endings.failure_findings(IN_PODMAN, job(completed=8, planned=8, errors=0, containers=report))) == []


def test_a_harness_that_cannot_be_installed_in_a_container_is_no_fault_of_the_environment() -> None:
    error = (
        "HarnessError: harness setup: RuntimeError: failed to prepare uv script: error: Request failed after 3 retries"
    )
    ran = job(completed=8, planned=8, errors=1, rollout_errors=[{"error": error, "rollouts": 1}], containers={})
    (finding,) = endings.failure_findings(IN_PODMAN, ran)
    assert finding.code == "eval-needs-sandbox"
    assert "Request failed" in finding.message
    assert "package index" in finding.fix
    assert [f.code for f in endings.failure_findings(SPEC, ran)] == ["eval-rollouts-raise"]
