"""An evaluation that is killed at any point goes on without repeating, losing or doubling a finished rollout.

The endpoint answers as many requests as it is allowed to and holds the rest back, so each kill meets a known number of
finished rollouts. The real vf-eval of each generation.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Job
from tests.lab.evals import v0
from tests.lab.evals.conftest import Specified
from tests.lab.evals.runner.test_jobs import leftovers, processes_naming, quiet
from tests.lab.evals.scripted import ScriptedModel, adds, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=2, group="evaluations that go on")]
TASKS, ROLLOUTS = 3, 2
PATIENCE = 240.0
Specify = Callable[[str], EvalSpec]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does, with a limit."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.05)


class Meter:
    """Lets a number of requests through; the others wait until the test ends them."""

    def __init__(self) -> None:
        self.left = 0
        self.changed = threading.Condition()
        self.open = True

    def allow(self, more: int) -> None:
        with self.changed:
            self.left += more
            self.changed.notify_all()

    def reply(self, body: dict[str, Any], before: int) -> str | int:
        with self.changed:
            self.changed.wait_for(lambda: self.left > 0 or not self.open, timeout=PATIENCE)
            self.left -= 1
        return adds(body, before) if self.open else 503

    def release(self) -> None:
        with self.changed:
            self.open = False
            self.changed.notify_all()


def finished(lab: Lab, job: Job) -> list[dict[str, Any]]:
    """Whole rows of rollouts that did not fail."""
    found = EvaluationJobs(lab).files(job.id).results()
    rows = []
    for line in found.read_bytes().splitlines() if found else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("ok", not row.get("error")):
            rows.append(row)
    return rows


def program_of(lab: Lab, job: Job) -> int:
    """The process of vf-eval itself: the youngest with the job's folder in its command line."""
    return max(processes_naming(str(EvaluationJobs(lab).files(job.id).root)))


async def supervisor_killed(lab: Lab, job: Job) -> None:
    pid = EvaluationJobs(lab).get(job.id).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not process.is_alive(pid))


async def program_killed(lab: Lab, job: Job) -> None:
    os.kill(program_of(lab, job), signal.SIGKILL)
    await until(lambda: EvaluationJobs(lab).get(job.id).state not in LIVE_STATES)


async def machine_lost(lab: Lab, job: Job) -> None:
    """Everything at once, in the midst of writing a line and the files beside it."""
    await supervisor_killed(lab, job)
    await until(lambda: not leftovers(lab, job))
    found = EvaluationJobs(lab).files(job.id).results()
    if found is not None:
        with found.open("ab") as results:
            results.write(b'{"example_id": 1, "traces": [{"id": "half')
        beside = found.with_name("metadata.json")
        saved = EvaluationJobs(lab).files(job.id).saved_config
        for file in (beside, saved):
            if file.is_file():
                file.write_text(file.read_text(encoding="utf-8")[: -file.stat().st_size // 2], encoding="utf-8")


async def config_lost(lab: Lab, job: Job) -> None:
    await machine_lost(lab, job)
    found = EvaluationJobs(lab).files(job.id).results()
    EvaluationJobs(lab).files(job.id).saved_config.unlink(missing_ok=True)
    if found is not None:
        found.with_name("metadata.json").unlink(missing_ok=True)


KILLS = [supervisor_killed, program_killed, machine_lost, config_lost]


async def interrupted(lab: Lab, spec: EvalSpec, model: ScriptedModel, before: int, wanted: int, kill: Any) -> Job:
    """One attempt that is killed once `wanted` rollouts are finished; `before` of them were before."""
    meter = Meter()
    model.reply, asked = meter.reply, sum(model.asked.values())
    model.arrived.clear()
    meter.allow(wanted - before)
    job = await EvaluationJobs(lab).start(spec, None)
    await until(lambda: model.arrived.is_set() and len(finished(lab, job)) >= wanted)
    await kill(lab, EvaluationJobs(lab).get(job.id))
    meter.release()
    await until(lambda: not leftovers(lab, job))
    assert len(finished(lab, job)) == wanted, "a finished rollout was lost"
    assert sum(model.asked.values()) - asked <= TASKS * ROLLOUTS - before, "a finished rollout was asked for again"
    return job


async def played(lab: Lab, specify: Specify, kills: list[tuple[int, Any]]) -> Job:
    """Run the evaluation with kills after so many finished rollouts, then to its end; the job as it ended."""
    with serving(adds) as model:
        before, spec = 0, specify(model.url)
        for wanted, kill in kills:
            job = await interrupted(lab, spec, model, before, wanted, kill)
            before = wanted
        model.reply, asked = adds, sum(model.asked.values())
        again = await EvaluationJobs(lab).start(spec, None)
        ended = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) - asked == TASKS * ROLLOUTS - before
    assert again.id == job.id
    return ended


def whole(lab: Lab, job: Job) -> None:
    """Exactly so many rows of every task, none failed, none twice, every line whole."""
    found = EvaluationJobs(lab).files(job.id).results()
    assert found is not None
    rows = [json.loads(line) for line in found.read_bytes().splitlines()]
    tasks = Counter(str(r["task"]["data"]["idx"]) if "task" in r else str(r["example_id"]) for r in rows)
    assert set(tasks.values()) == {ROLLOUTS}, tasks
    assert len(tasks) == TASKS
    assert len({r.get("id") or json.dumps(r["timing"], sort_keys=True) for r in rows}) == len(rows)
    assert (job.state, job.progress["completed"], job.progress["errors"]) == ("finished", TASKS * ROLLOUTS, 0)
    assert job.progress["findings"] == [], "a rollout counts as one that the endpoint did not answer"


@pytest.mark.rotate(share=6)
@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize("done", [0, 1, 5])
async def test_v1_goes_on_after_any_kill(lab: Lab, specified: Specified, kill: Any, done: int) -> None:
    ended = await played(
        lab, lambda url: specified(url, tasks=TASKS, rollouts=ROLLOUTS, deadline_s=900.0), [(done, kill)]
    )
    whole(lab, ended)


@pytest.mark.cold
async def test_v1_goes_on_after_one_kill_upon_another(lab: Lab, specified: Specified) -> None:
    kills = [(0, program_killed), (1, config_lost), (3, supervisor_killed), (5, machine_lost)]
    ended = await played(lab, lambda url: specified(url, tasks=TASKS, rollouts=ROLLOUTS, deadline_s=900.0), kills)
    whole(lab, ended)


@pytest.fixture(params=v0.VERSIONS)
async def older(request: pytest.FixtureRequest, lab: Lab, specified: Specified) -> Callable[..., EvalSpec]:
    v0.write(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v0")
    found = await v0.interpreter(request.param)
    program = found.program("vf-eval")
    assert program is not None

    def specify(url: str, **changes: object) -> EvalSpec:
        values: dict[str, object] = {
            "environment": snapshot.name,
            "source": snapshot.source,
            "content": snapshot.content,
            "tree": snapshot.tree,
            "api": "v0",
            "module": "sums_v0",
            "python": found.python,
            "program": program,
            "verifiers": request.param,
            "deadline_s": 900.0,
        }
        return specified(url, tasks=TASKS, rollouts=ROLLOUTS, **(values | changes))

    return specify


@pytest.mark.rotate(share=4)
@pytest.mark.parametrize("kill", [program_killed, config_lost])
@pytest.mark.parametrize("done", [1, 5])
async def test_v0_goes_on_after_any_kill(lab: Lab, older: Specify, kill: Any, done: int) -> None:
    ended = await played(lab, older, [(done, kill)])
    whole(lab, ended)


@pytest.mark.rotate(share=3)
async def test_v0_goes_on_after_one_kill_upon_another(lab: Lab, older: Specify) -> None:
    kills = [(0, supervisor_killed), (1, machine_lost), (3, program_killed), (5, config_lost)]
    ended = await played(lab, older, kills)
    whole(lab, ended)


@pytest.mark.rotate(share=3)
async def test_a_group_that_is_rated_together_is_kept_or_repeated_whole(
    lab: Lab, older: Callable[..., EvalSpec]
) -> None:
    with serving(adds) as model:
        spec = older(model.url, env_args={"group": True}, concurrency=1)
        job = await interrupted(lab, spec, model, 0, ROLLOUTS, machine_lost)
        found = EvaluationJobs(lab).files(job.id).results()
        assert found is not None
        # As if the second line of the group had been lost with the machine.
        found.write_bytes(found.read_bytes().splitlines(keepends=True)[0])
        model.reply, asked = adds, sum(model.asked.values())
        again = await EvaluationJobs(lab).start(spec, None)
        ended = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) - asked == TASKS * ROLLOUTS
    whole(lab, ended)


@pytest.mark.rotate(share=3)
@pytest.mark.parametrize("api", ["v0", "v1"])
async def test_a_kill_between_the_last_rollout_and_the_end_asks_for_nothing(
    lab: Lab, specified: Specified, older: Specify, api: str
) -> None:
    with serving(adds) as model:
        spec = (
            older(model.url) if api == "v0" else specified(model.url, tasks=TASKS, rollouts=ROLLOUTS, deadline_s=900.0)
        )
        job = await EvaluationJobs(lab).start(spec, None)
        job = await EvaluationJobs(lab).wait(job.id, PATIENCE, quiet)
        lab.ledger.update_job(job.id, state="crashed")
        asked = sum(model.asked.values())
        again = await EvaluationJobs(lab).start(spec, None)
        ended = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) == asked == TASKS * ROLLOUTS
    whole(lab, ended)
    assert again.id == job.id


async def test_an_attempt_waits_for_what_is_left_of_the_one_before_it(lab: Lab, specified: Specified) -> None:
    meter = Meter()
    with serving(meter.reply) as model:
        spec = specified(model.url, tasks=TASKS, rollouts=ROLLOUTS, deadline_s=900.0)
        meter.allow(2)
        job = await EvaluationJobs(lab).start(spec, None)
        await until(lambda: len(finished(lab, job)) == 2)
        await supervisor_killed(lab, EvaluationJobs(lab).get(job.id))
        again = await EvaluationJobs(lab).start(
            specified(model.url, tasks=TASKS, rollouts=ROLLOUTS, concurrency=2), None
        )
        asked = sum(model.asked.values())
        meter.allow(99)  # those that the killed attempt left waiting take their part of it
        ended = await EvaluationJobs(lab).wait(again.id, PATIENCE, quiet)
        assert sum(model.asked.values()) - asked <= TASKS * ROLLOUTS - 2
    whole(lab, ended)
    assert again.id == job.id
