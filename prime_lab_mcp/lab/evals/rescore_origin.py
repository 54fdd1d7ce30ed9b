"""The evaluation whose rollouts are scored again, as long as its results are those that it had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.errors import BadInput, EvalError
from prime_lab_mcp.lab.evals.attempt import file_sha256
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job


@dataclass(frozen=True, slots=True)
class Origin:
    """The evaluation whose rollouts are scored again."""

    job: Job
    spec: EvalSpec
    path: Path


def origin(lab: Lab, id: str, environment: str) -> Origin:
    """The evaluation that really ran behind `id`, its results unchanged. Raises EvalError, BadInput."""
    job = lab.evals.get(id)
    spec = lab.evals.spec(job)
    if spec.rescored:
        return origin(lab, spec.rescored, environment)
    if job.environment != environment:
        raise BadInput(
            f"evaluation {job.id} is one of {job.environment}, not of {environment}",
            fix="Name an evaluation of this environment; watch_run lists them.",
            code="rescore-other-environment",
        )
    if job.state != "finished":
        raise EvalError(
            f"evaluation {job.id} is {job.state}, and only a finished one can be scored again",
            fix="Wait for it, or resume it with the same run_eval call.",
            code="eval-not-finished",
        )
    return Origin(job, spec, intact(lab, job))


def intact(lab: Lab, job: Job) -> Path:
    """The results of a finished job, unchanged since. Raises EvalError."""
    path, expected = lab.evals.files(job.id).results(), job.progress.get("results_sha256")
    if path is None or expected is None:
        raise EvalError(
            f"the results of evaluation {job.id} are gone", fix="Run run_eval again.", code="eval-results-missing"
        )
    if file_sha256(path) != expected:
        raise EvalError(
            f"the results of evaluation {job.id} were changed after it ended",
            fix="Run run_eval again.",
            code="eval-results-changed",
        )
    return path
