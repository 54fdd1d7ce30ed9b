"""Whole jobs: the real vf-eval on a real environment, against a scripted endpoint."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Job
from tests.lab.evals.conftest import Specified
from tests.lab.evals.finished import record_confirmed
from tests.lab.evals.scripted import adds, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
KEY = "sk-the-real-key-0123456789"
PATIENCE = 90.0


async def quiet(done: float, total: float | None, message: str) -> None:
    """Nobody follows."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does, with a limit."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.05)


def processes_naming(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(int(entry.name))
    return found


def leftovers(lab: Lab, job: Job) -> list[int]:
    return processes_naming(str(EvaluationJobs(lab).files(job.id).root))


async def test_a_finished_job_counts_hides_the_key_and_is_recorded_exactly_once(lab: Lab, specified: Specified) -> None:
    with serving(adds) as model:
        job = await EvaluationJobs(lab).start(specified(model.url, tasks=32, rollouts=4), KEY)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)

    assert (job.state, job.progress["completed"], job.progress["errors"]) == ("finished", 128, 0), job.progress
    assert job.progress["requests"] == 128
    assert (job.progress["prompt_tokens"], job.progress["completion_tokens"]) == (1280, 640)
    rollouts = list(EvaluationJobs(lab).rollouts(job.id))
    assert len({r.task for r in rollouts}) == 32
    assert {r.reward for r in rollouts} == {0.2, 1.2}

    # The endpoint got the key; nothing that environment code or the job's files can show has it.
    assert model.keys == {f"Bearer {KEY}"}
    root = EvaluationJobs(lab).files(job.id).root
    seen = [json.loads(p.read_text()) for p in root.rglob("seen.json")]
    assert not [v for variables in seen for v in variables.values() if KEY in v]
    files = [p for p in [*root.rglob("*"), *lab.settings.state_dir.glob("ledger*")] if p.is_file()]
    assert not [p.name for p in files if KEY.encode() in p.read_bytes()]

    recorded = record_confirmed(lab)
    assert len(recorded) == 2
    assert record_confirmed(lab) == []
    rows = {r.tool: r for r in lab.ledger.evidence(lab.key)}
    assert rows["run_eval"].status == rows["check_reward_distribution"].status == "passed"
    assert rows["run_eval"].data["id"] == job.id
    assert rows["run_eval"].results_sha256 == job.progress["results_sha256"]
    assert rows["check_reward_distribution"].data["usable_groups"]["share"] > 0.9
    assert rows["run_eval"].harness == "null (in-process)"
    assert rows["run_eval"].platform is None


async def test_results_that_were_changed_after_the_job_prove_nothing(lab: Lab, specified: Specified) -> None:
    with serving(adds) as model:
        job = await EvaluationJobs(lab).start(specified(model.url), None)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)
    with EvaluationJobs(lab).results_path(job.id).open("ab") as results:
        results.write(b"\n")

    record_confirmed(lab)

    rows = lab.ledger.evidence(lab.key)
    assert {(r.status, r.blockers) for r in rows} == {("inconclusive", ("eval-results-changed",))}


async def test_a_failing_endpoint_is_no_low_score(lab: Lab, specified: Specified) -> None:
    with serving(lambda body, before: 503) as model:
        job = await EvaluationJobs(lab).start(specified(model.url, tasks=2, rollouts=2), KEY)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)

    judged = verdict.judge_job(lab, job)

    assert job.state == "finished"
    assert job.progress["errors"] == 4
    assert job.progress["request_errors"]["503"] >= 4
    assert KEY not in json.dumps(dict(job.progress))
    assert judged.status == "inconclusive"
    assert [f.code for f in judged.findings if f.severity == "blocker"] == ["eval-all-errors"]
    assert judged.distribution is not None
    assert judged.distribution.mean is None


@pytest.mark.cold
async def test_the_same_intent_attaches_and_stop_leaves_nothing_and_resuming_repeats_nothing(
    lab: Lab, specified: Specified
) -> None:
    gate = threading.Event()
    first = {"free": 3}

    def three_then_wait(body: dict[str, object], before: int) -> str:
        with model.lock:
            free, first["free"] = first["free"], first["free"] - 1
        if free <= 0:
            gate.wait(60)
        return adds(body, before)

    with serving(three_then_wait) as model:
        spec = specified(model.url, tasks=4, rollouts=2)
        job = await EvaluationJobs(lab).start(spec, KEY)
        assert (await EvaluationJobs(lab).start(spec, KEY)).id == job.id
        await until(lambda: EvaluationJobs(lab).get(job.id).progress.get("completed") == 3)
        stopped = await EvaluationJobs(lab).stop(job.id)
        await until(lambda: not leftovers(lab, job))
        gate.set()
        before = sum(model.asked.values())
        resumed = await EvaluationJobs(lab).start(spec, KEY)
        ended = await EvaluationJobs(lab).wait(resumed.id, PATIENCE, quiet)
        asked_again = sum(model.asked.values()) - before

    assert (stopped.state, stopped.progress["reason"]) == ("stopped", "it was stopped")
    assert resumed.id == job.id
    assert (ended.state, ended.progress["completed"]) == ("finished", 8), ended.progress
    assert asked_again == 5


@pytest.mark.cold
async def test_a_killed_supervisor_is_found_and_nothing_of_the_job_is_left(lab: Lab, specified: Specified) -> None:
    gate = threading.Event()
    with serving(adds, gate) as model:
        job = await EvaluationJobs(lab).start(specified(model.url), KEY)
        await until(model.arrived.is_set)
        pid = EvaluationJobs(lab).get(job.id).pid
        assert pid is not None
        assert KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not process.is_alive(pid))

        crashed = EvaluationJobs(lab).get(job.id)
        assert (crashed.state, crashed.progress["reason"]) == ("crashed", "its supervisor died")
        await until(lambda: not leftovers(lab, job))


STARTER = """
import anyio, json, os, sys
from pathlib import Path
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs as Evals
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.base.settings import Settings

async def main(workspace, state, spec):
    lab = Lab(Settings(workspace=Path(workspace), state_dir=Path(state)))
    print((await Evals(lab).start(EvalSpec.from_json(json.loads(spec)), None)).id, flush=True)
    os.kill(os.getpid(), 9)

anyio.run(main, *sys.argv[1:])
"""


async def test_a_job_outlives_the_server_that_started_it(lab: Lab, specified: Specified) -> None:
    with serving(adds) as model:
        spec = json.dumps(specified(model.url, tasks=2, rollouts=1).as_json())
        folders = [str(lab.settings.workspace), str(lab.settings.state_dir)]
        root = str(Path(__file__).parents[4])
        started = await process.run(
            [sys.executable, "-c", STARTER, *folders, spec],
            cwd=Path(root),
            env=process.clean_environment({"PYTHONPATH": root}),
            timeout=60,
        )
        ended = await EvaluationJobs(lab).wait(started.stdout.strip(), PATIENCE, quiet)

    assert started.returncode == -signal.SIGKILL
    assert (ended.state, ended.progress["completed"]) == ("finished", 2), ended.progress


async def test_the_deadline_ends_a_job(lab: Lab, specified: Specified) -> None:
    gate = threading.Event()
    with serving(adds, gate) as model:
        job = await EvaluationJobs(lab).start(specified(model.url, deadline_s=6.0), KEY)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)

    assert (job.state, job.progress["reason"]) == ("stopped", "it reached its deadline")


async def test_an_environment_that_cannot_load_crashes_the_job_with_its_own_words(
    lab: Lab, specified: Specified
) -> None:
    spec = specified("http://127.0.0.1:9/v1", env_args={"no_such_field": 1})
    job = await EvaluationJobs(lab).start(spec, None)
    job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)

    assert job.state == "crashed"
    assert "exit code 1" in job.progress["reason"]
    assert "no-such-field" in job.progress["reason"]


async def test_a_lapsed_lease_of_a_supervisor_that_is_gone_is_a_crash(lab: Lab, specified: Specified) -> None:
    spec = specified("http://127.0.0.1:9/v1")
    ghost = Job(
        "eval-ghost",
        lab.key,
        spec.environment,
        spec.source,
        spec.content,
        spec.intent,
        "running",
        None,
        1.0,
        2.0,
        None,
        spec.as_json(),
    )
    lab.ledger.create_job(ghost)

    EvaluationJobs(lab).reconcile()

    found = lab.ledger.job("eval-ghost")
    assert found is not None
    assert (found.state, found.progress["reason"]) == ("crashed", "its supervisor stopped answering")


async def test_a_recording_that_fails_leaves_the_job_to_be_judged_again(
    lab: Lab, specified: Specified, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(adds) as model:
        job = await EvaluationJobs(lab).start(specified(model.url, tasks=1, rollouts=1), None)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)

    def full(*_: object) -> dict[str, object]:
        raise sqlite3.OperationalError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(lab.ledger, "record", full)
        with pytest.raises(Exception, match="disk full"):
            record_confirmed(lab)

    assert lab.ledger.evidence(lab.key) == []
    assert len(record_confirmed(lab)) == 2
