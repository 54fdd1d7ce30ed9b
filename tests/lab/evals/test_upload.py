"""Uploading the results of a local evaluation through the real prime: private, whole, and once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.evals import upload
from prime_lab_mcp.lab.evals.runner.attempt import file_sha256
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools import push_environment
from prime_lab_mcp.tools.run_eval import TOOL
from tests.tools.loopback import Desk, desk

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
REF = "rehearsal/uploads"


LOADS = """\
import verifiers.v1 as vf

__all__ = ["Sums"]


class Sum(vf.Task):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "2")


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self) -> list[Sum]:
        return [Sum(vf.TaskData(idx=0, prompt="1 + 1"), self.config.task)]
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("upload")) as opened:
        opened.environment("uploads", code=LOADS)
        await opened.call(push_environment.TOOL, environment="uploads")
        yield opened


def trace(task: int, score: float) -> dict[str, Any]:
    messages = [
        {"message": {"role": "user", "content": f"What is {task}+1?"}, "sampled": False},
        {"message": {"role": "assistant", "content": f"<answer>{task + 1}</answer>"}, "sampled": True},
    ]
    return {
        "id": f"t{task}-{score}",
        "ok": True,
        "nodes": messages,
        "metrics": {"length": float("nan")},
        "rewards": {"correct": {"score": score, "weight": 1.0}},
        "errors": [],
        "task": {"key": f"k{task}", "data": {"idx": task, "prompt": "?", "answer": str(task + 1)}},
    }


async def finished(at: Desk, id: str) -> Job:
    """A finished job of the published environment with six rollouts of three tasks."""
    taken = await at.lab.snapshot("uploads")
    files = EvaluationJobs(at.lab).files(id)
    results = files.output / "run" / "traces.jsonl"
    results.parent.mkdir(parents=True)
    rows = [{"traces": [trace(n, s)], "task": trace(n, s)["task"]} for n in range(3) for s in (0.0, 1.0)]
    results.write_text("".join(json.dumps(r) + "\n" for r in [*rows, {"traces": [], "job": id}]), encoding="utf-8")
    spec = {
        "environment": "uploads",
        "source": taken.source,
        "content": taken.content,
        "tree": str(taken.tree),
        "api": "v1",
        "module": "uploads",
        "python": "python",
        "program": "vf-eval",
        "verifiers": "0.4.0",
        "model": "some/model",
        "endpoint": {"preset": "url", "url": "http://localhost:1/v1"},
        "num_examples": 3,
        "rollouts": 2,
    }
    row = Job(
        id=id,
        workspace=at.lab.key,
        environment="uploads",
        source=taken.source,
        content=taken.content,
        intent=id,
        state="finished",
        pid=None,
        lease=0.0,
        deadline=0.0,
        platform=None,
        spec=spec,
        progress={"results_sha256": file_sha256(results)},
        judged=True,
        at=time.time(),
    )
    return at.lab.ledger.create_job(row)


async def held(at: Desk) -> list[dict[str, Any]]:
    return await at.lab.prime.eval_list(environment=REF)


async def test_what_is_uploaded_is_every_rollout_privately_under_the_published_name_and_once(at: Desk) -> None:
    before = len(await held(at))
    job = await finished(at, "eval-0000000a")
    ref = await upload.upload_target(at.lab, await at.lab.snapshot("uploads"))
    assert ref == REF

    sent = await upload.upload_results(at.lab, job, ref)
    again = await upload.upload_results(at.lab, job, ref)

    assert (sent.sent, again.sent, again.id, sent.samples) == (True, False, sent.id, 7)
    assert sent.url.endswith(sent.id)
    assert len(await held(at)) == before + 1
    told = await at.lab.prime.eval_get(sent.id)
    assert (told["status"], told["model_name"], told["environment_names"]) == ("COMPLETED", "some/model", [REF])
    assert told["metadata"]["source"] == job.source
    assert told["metrics"]["reward"] == 0.5
    samples = (await at.lab.prime.eval_samples(sent.id))["samples"]
    assert [s["reward"] for s in samples] == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, None]
    assert [s["example_id"] for s in samples[:6]] == [0, 0, 1, 1, 2, 2]
    assert samples[0]["prompt"] == [{"role": "user", "content": "What is 0+1?"}]
    assert samples[0]["completion"] == [{"role": "assistant", "content": "<answer>1</answer>"}]
    assert (samples[0]["answer"], samples[0]["metrics"]["correct"]) == ("1", 0.0)


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize(
    ("id", "method", "path"),
    [
        ("eval-0000000b", "POST", "/evaluations/$"),
        ("eval-0000000c", "POST", "/evaluations/[^/]+/samples$"),
        ("eval-0000000d", "POST", "/evaluations/[^/]+/finalize$"),
    ],
)
async def test_an_answer_lost_at_any_step_leaves_one_whole_evaluation_or_says_what_is_there(
    at: Desk, id: str, method: str, path: str
) -> None:
    before = len(await held(at))
    job = await finished(at, id)
    await at.fault("drop-after", path, method=method)
    if path.endswith("/samples$"):
        # The samples arrived, and prime sent them again by itself: that is said and not hidden.
        for _ in range(2):
            with pytest.raises(LabError) as caught:
                await upload.upload_results(at.lab, job, REF)
            assert caught.value.code == "upload-incomplete"
            assert "14 rollouts, not the 7" in caught.value.message
    else:
        sent = await upload.upload_results(at.lab, job, REF)
        assert (await at.lab.prime.eval_get(sent.id))["total_samples"] == 7
    assert len(await held(at)) == before + 1


async def test_a_refused_upload_takes_nothing_from_the_evaluation_and_may_be_tried_again(at: Desk) -> None:
    before = len(await held(at))
    job = await finished(at, "eval-0000000e")
    await at.fault("402", "/evaluations/$", method="POST")
    kept = await upload.outcome_with_upload(at.lab, job, REF, Outcome("passed", "fine", data={"id": job.id}))
    assert (kept.status, [f.code for f in kept.findings], "upload" in kept.data) == ("passed", ["upload-failed"], False)
    done = await upload.outcome_with_upload(at.lab, job, REF, Outcome("passed", "fine", data={"id": job.id}))
    assert (done.data["upload"]["environment"], done.data["upload"]["deduplicated"]) == (REF, False)
    assert len(await held(at)) == before + 1


async def test_unpublished_files_are_refused_before_anything_runs_and_publishing_is_asked_about(at: Desk) -> None:
    at.environment("unpublished")
    given = {"model": "rehearsal/skill-50", "upload": True}
    with pytest.raises(LabError) as caught:
        await at.intent(TOOL, environment="unpublished", **given)
    assert caught.value.code == "upload-unpublished"
    asked = await at.intent(TOOL, environment="uploads", num_examples=1, rollouts=1, **given)
    assert asked is not None
    assert asked.ask
    assert f"uploaded to the platform, privately, under {REF}" in asked.question
