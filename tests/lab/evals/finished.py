"""A finished evaluation without running one: a job in the ledger, and results as v1 vf-eval writes them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.evidence import record_verdict
from prime_lab_mcp.lab.evals.runner.attempt import file_sha256
from prime_lab_mcp.lab.evals.runner.command import RUN_FOLDER
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.state.ledger.rows import Job

SPEC = EvalSpec(
    environment="sums_v1",
    source="a" * 64,
    content="b" * 64,
    tree=Path("/nowhere"),
    api="v1",
    module="sums_v1",
    python=Path(sys.executable),
    program=Path(sys.executable),
    verifiers="0.4.0",
    model="scripted",
    endpoint=Endpoint("url", "http://127.0.0.1:9/v1"),
    num_examples=40,
    rollouts=4,
    tasks=40,
    max_tokens=64,
    weights={"correct": 1.0},
)


_NUMBER = itertools.count()


def episode(
    task: int, reward: float | None, said: str = "four", *, answer: str = "four", **changes: Any
) -> dict[str, Any]:
    """One rollout of one task; a reward of None is a rollout that failed."""
    failed = [{"type": "ProviderError", "message": "down", "status_code": 503}] if reward is None else []
    trace = {
        "id": f"t{task}-{next(_NUMBER)}",
        "task": {"key": f"k{task}", "data": {"idx": task, "answer": answer}},
        "agent": {"name": "agent", "trainable": True},
        "nodes": [
            {"message": {"role": "user", "content": "2+2?"}, "sampled": False},
            {"message": {"role": "assistant", "content": said}, "sampled": True},
        ],
        "calls": [{"finish_reason": "stop"}],
        "errors": failed,
        "ok": not failed,
        "stop_condition": "agent_completed",
        "rewards": {} if failed else {"correct": {"score": reward, "weight": 1.0}},
        "num_input_tokens": 7,
        "num_output_tokens": 2,
    }
    return {"id": f"e{task}", "task": {"key": f"k{task}"}, "traces": [trace | changes], "errors": [], "ok": not failed}


def mixed(tasks: int = 40, rollouts: int = 4, said: str = "four") -> list[dict[str, Any]]:
    """The first quarter of the tasks is never solved, the last always, the others every second time."""
    quarter = tasks // 4
    return [
        episode(t, 0.0 if t < quarter else 1.0 if t >= 3 * quarter else float(r % 2), said)
        for t in range(tasks)
        for r in range(rollouts)
    ]


def record_confirmed(lab: Lab) -> list[int]:
    """Record the verdicts of all finished evaluations as if their rewards had been confirmed."""
    recorded: list[int] = []
    for job in lab.ledger.unjudged(lab.key):
        lab.ledger.note_finished(job, {**job.progress, verdict.CONFIRMED: True})
        recorded += record_verdict(lab, lab.ledger.job(job.id) or job)
    return recorded


def finished(
    lab: Lab,
    episodes: Sequence[dict[str, Any]],
    id: str = "eval-00000001",
    *,
    confirmed: bool = True,
    stopped_of: int | None = None,
    **changes: Any,
) -> Job:
    """The job in the ledger of `lab`, with these episodes as its results. `changes` are the specification's.

    With `stopped_of`, the job was stopped before so many rollouts were finished.
    """
    spec = dataclasses.replace(SPEC, **changes)
    path = EvaluationJobs(lab).files(id).output / RUN_FOLDER / "traces.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(e) + "\n" for e in episodes), encoding="utf-8")
    now = time.time()
    progress: dict[str, Any] = {
        "completed": len(episodes),
        "planned": stopped_of or len(episodes),
        "results_sha256": file_sha256(path),
        "cost": 0.25,
    }
    if confirmed:
        progress[verdict.CONFIRMED] = True
    job = Job(
        id=id,
        workspace=lab.key,
        environment=spec.environment,
        source=spec.source,
        content=spec.content,
        intent=spec.intent,
        state="stopped" if stopped_of else "finished",
        pid=None,
        lease=now,
        deadline=now + 60,
        platform=None,
        spec=spec.as_json(),
        progress=progress,
        at=now,
    )
    return lab.ledger.create_job(job)
