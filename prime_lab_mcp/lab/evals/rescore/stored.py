"""Reads the stored rollouts of a finished evaluation, and writes new rewards into their records.

A line of v1 results holds an episode, a line of v0 results a rollout. Text in a record is not trusted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.untrusted_files import bounded_lines, open_results
from prime_lab_mcp.lab.evals.runner.attempt import file_sha256
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.reading import decode_line, layout_of, parse_record
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.scoring import Scored

Record = Mapping[str, Any]
"""One decoded line of a results file."""
_FAILED_STOP = "_error"
"""End of the stop conditions of rollouts that failed."""


class RecordFormat(Protocol):
    """Reads and changes stored records, whose form depends on the generation of verifiers."""

    whole: bool
    """Whether the worker scores the whole payload; otherwise it scores the messages of the reply alone."""

    def task(self, record: Record) -> Record:
        """Return the part of the record that identifies its task."""
        ...

    def several(self, record: Record) -> bool:
        """Whether more than one agent took part in the rollout."""
        ...

    def scorable(self, record: Record) -> bool:
        """Whether the conversation of the record is complete enough to score."""
        ...

    def payload(self, record: Record) -> Record:
        """Return the part of the record that the worker scores."""
        ...

    def reply_messages(self, record: Record) -> Sequence[Record] | None:
        """Return the messages from the model's first reply on, or None if the conversation branches."""
        ...

    def with_scores(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]:
        """Return the record with the given scores, and with `task` as its task data."""
        ...


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One stored rollout. `task` is the fingerprint of its task; `scorable` says whether its conversation is
    complete."""

    record: Record
    task: str
    rollout: Rollout
    scorable: bool


def stored_rollouts(path: Path, form: RecordFormat, api: str) -> Iterator[StoredRecord]:
    """Yield the stored rollouts of a results file in file order.

    Broken lines are skipped, and so are records of another generation than `api` (`v0` or `v1`).
    """
    with open_results(path) as source:
        for line in bounded_lines(source, path.name):
            record = decode_line(line.strip())
            if not isinstance(record, dict) or layout_of(record) != api:
                continue
            first = next(iter(parse_record(record, layout_of(record))))
            yield StoredRecord(record, task_fingerprint(form.task(record)), first, form.scorable(record))


def task_fingerprint(task: Record) -> str:
    """Return the fingerprint of a stored task, which is equal for equal tasks."""
    return hashlib.sha256(json.dumps(dict(task), sort_keys=True, default=str).encode()).hexdigest()[:24]


def record_format(api: str) -> RecordFormat:
    """Return the record format of a generation, `v0` or `v1`."""
    return _V1() if api == "v1" else _V0()


class _V1:
    """Records of v1: an episode with its traces, or one trace."""

    whole = True

    def task(self, record: Record) -> Record:
        data = (self._inner(record).get("task") or record.get("task") or {}).get("data") or {}
        return {"data": data}

    def several(self, record: Record) -> bool:
        return len(record.get("traces") or ()) > 1

    def scorable(self, record: Record) -> bool:
        """Whether the rollout was scored, or its scoring began and raised."""
        trace = self._inner(record)
        scoring_start = ((trace.get("timing") or {}).get("scoring") or {}).get("start")
        return bool(trace.get("nodes")) and bool(trace.get("ok") or scoring_start) and not self.several(record)

    def payload(self, record: Record) -> Record:
        return self._inner(record)

    def reply_messages(self, record: Record) -> Sequence[Record] | None:
        nodes = self._inner(record).get("nodes") or []
        if any((n.get("parent") if n.get("parent") is not None else -1) != at - 1 for at, n in enumerate(nodes)):
            return None
        start = next((at for at, n in enumerate(nodes) if n.get("sampled")), len(nodes))
        return [n["message"] for n in nodes[start:]]

    def with_scores(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]:
        """Return the episode with the present task data and rewards.

        The key of the task stays, so that evaluations can still be compared task by task.
        """
        old = self._inner(record)
        stored_task = dict(old.get("task") or {})
        missing = missing_reward_error(scored)
        errors = [e for e in old.get("errors") or () if e.get("type") != "TaskError"]
        trace = {
            **old,
            "task": {**stored_task, **task},
            "rewards": {n: _reward(c.score, c.weight) for n, c in scored.components.items()},
            "metrics": dict(scored.metrics),
            "extra_usage": [],
            "errors": [*errors, *missing],
            "ok": not missing,
        }
        if not missing and str(old.get("stop_condition") or "").endswith(_FAILED_STOP):
            trace["stop_condition"] = "agent_completed"
        renewed = {**record, "traces": [trace], "ok": not missing} if "traces" in record else trace
        if "traces" in record:
            renewed["task"] = {**(record.get("task") or stored_task), **task}
            renewed["errors"] = [e for e in record.get("errors") or () if e.get("type") != "TaskError"]
        return renewed

    def _inner(self, record: Record) -> Record:
        traces = record.get("traces")
        if traces is None:
            return record
        return traces[0] if traces else {}


class _V0:
    """Records of v0: one row for each rollout."""

    whole = False

    def task(self, record: Record) -> Record:
        return {k: record.get(k) for k in ("example_id", "prompt", "answer", "info")}

    def several(self, record: Record) -> bool:
        return False

    def scorable(self, record: Record) -> bool:
        return not record.get("error") and record.get("completion") is not None

    def payload(self, record: Record) -> Record:
        return {k: v for k, v in record.items() if k != "trajectory"}

    def reply_messages(self, record: Record) -> Sequence[Record] | None:
        completion = record.get("completion")
        return [dict(m) for m in completion] if isinstance(completion, list) else None

    def with_scores(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]:
        """Return the row with the present task data and rewards.

        verifiers 0.1.14 stores every metric twice: under `metrics` and as a field of the row.
        """
        stored_metrics = record.get("metrics") or {}
        metrics = {**{n: c.score for n, c in scored.components.items()}, **scored.metrics}
        unchanged = {k: v for k, v in record.items() if k not in stored_metrics}
        missing = missing_reward_error(scored)
        error = [{"error": e["type"], "error_chain_str": f"{e['type']}: {e['message']}"} for e in missing]
        return {
            **unchanged,
            **{k: v for k, v in task.items() if k in record},
            "reward": 0.0 if missing else scored.reward,
            "error": error[0] if error else None,
            "metrics": metrics,
            **metrics,
        }


def missing_reward_error(scored: Scored) -> list[dict[str, Any]]:
    """Return the errors of a record whose scoring gave no reward. Empty if the reward is a number, NaN included."""
    if not scored.errors and (scored.reward is not None or scored.has(ProblemCode.NONFINITE)):
        return []
    first = scored.errors[0] if scored.errors else None
    message = (
        f"{first.message} ({first.where})" if first else ", ".join(map(str, scored.problems)) or "it was not scored"
    )
    return [{"type": first.type if first else "NotScored", "message": message, "status_code": None, "traceback": None}]


def _reward(score: float | None, weight: float) -> dict[str, Any]:
    finite = score if score is not None and math.isfinite(score) else None
    return {"score": finite, "weight": weight}


@dataclass(frozen=True, slots=True)
class RescoreSource:
    """A finished evaluation whose rollouts are scored again. `path` is its results file."""

    job: Job
    spec: EvalSpec
    path: Path


def rescore_source(lab: Lab, id: str, environment: str) -> RescoreSource:
    """Return the finished evaluation of `environment` with this id. Raises EvalError, BadInput.

    If the evaluation is itself a rescoring, the evaluation whose rollouts it scored is returned.
    """
    job = EvaluationJobs(lab).get(id)
    spec = EvaluationJobs(lab).spec(job)
    if spec.rescored:
        return rescore_source(lab, spec.rescored, environment)
    if job.environment != environment:
        raise BadInput(
            f"evaluation {job.id} is one of {job.environment}, not of {environment}",
            fix=Fix("Name an evaluation of this environment; ", NamedCall("watch_run"), " lists them."),
            code="rescore-other-environment",
        )
    if job.state != "finished":
        raise EvalError(
            f"evaluation {job.id} is {job.state}, and only a finished one can be scored again",
            fix=Fix("Wait for it, or resume it with the same ", NamedCall("run_eval"), " call."),
            code="eval-not-finished",
        )
    return RescoreSource(job, spec, require_unchanged_results(lab, job))


def require_unchanged_results(lab: Lab, job: Job) -> Path:
    """Return the results file of a finished job. Raises EvalError if the file is missing or was changed."""
    path, expected = EvaluationJobs(lab).files(job.id).results(), job.progress.get("results_sha256")
    if path is None or expected is None:
        raise EvalError(
            f"the results of evaluation {job.id} are gone",
            fix=Fix("Run ", NamedCall("run_eval"), " again."),
            code="eval-results-missing",
        )
    if file_sha256(path) != expected:
        raise EvalError(
            f"the results of evaluation {job.id} were changed after it ended",
            fix=Fix("Run ", NamedCall("run_eval"), " again."),
            code="eval-results-changed",
        )
    return path
