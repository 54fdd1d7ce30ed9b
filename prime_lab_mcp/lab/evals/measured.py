"""What is known of a rollout before an evaluation starts: its tokens and its seconds, as earlier calls measured them.

Tokens are those of an evaluation of the same environment and model, as the endpoint counted them. Seconds are those of
the same evaluation, or else of the solutions that `test_reward` played in containers, where starting the container and
its files takes most of the time. Where nothing was measured, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec, MeasuredRollout
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.ledger.rows import Job

_LEAST = 8
"""Fewest finished rollouts whose mean says something (our judgement)."""


def measured_rollout(lab: Lab, spec: EvalSpec) -> MeasuredRollout | None:
    """Return what a rollout of this evaluation takes as measured before; None where nothing was.

    Of several evaluations of the model, one of the same files and arguments counts more than a newer one.
    """
    jobs = [job for job in EvaluationJobs(lab).list(spec.environment) if _measures(job, spec)]
    best = max(
        jobs,
        key=lambda j: (
            same_arguments(j.spec.get("env_args") or {}, spec.env_args),
            j.source == spec.source,
            j.spec.get("max_tokens") == spec.max_tokens,
            j.at,
        ),
        default=None,
    )
    seconds, timed_by = _solution_seconds(lab, spec), "test_reward"
    if best is None:
        return None if seconds is None else MeasuredRollout(None, None, seconds, timed_by)
    completed = int(best.progress["completed"])
    prompt, completion = (best.progress[f"{name}_tokens"] / completed for name in ("prompt", "completion"))
    own = _seconds(best, completed) if best.spec.get("runtime") == spec.runtime else None
    if own is not None:
        seconds, timed_by = own, best.id
    return MeasuredRollout(prompt, completion, seconds, timed_by if seconds is not None else "", best.id, completed)


def _measures(job: Job, spec: EvalSpec) -> bool:
    tokens = [job.progress.get(f"{name}_tokens") for name in ("prompt", "completion")]
    return (
        job.state not in LIVE_STATES
        and job.spec.get("model") == spec.model
        and not job.spec.get("rescored")
        and int(job.progress.get("completed") or 0) >= _LEAST
        and all(isinstance(one, int | float) and one > 0 for one in tokens)
    )


def _seconds(job: Job, completed: int) -> float | None:
    """Return the seconds of one rollout of an evaluation, from the time of the whole and the rollouts at a time."""
    seconds, together = job.progress.get("seconds"), int(job.spec.get("concurrency") or 1)
    if not isinstance(seconds, int | float) or seconds <= 0:
        return None
    return float(seconds) * min(together, completed) / completed


def _solution_seconds(lab: Lab, spec: EvalSpec) -> float | None:
    """Return the seconds of a solution's rollout in containers, as `test_reward` played it with the same files."""
    if not spec.uses_podman:
        return None
    for row in lab.ledger.evidence(lab.key, tool="test_reward", source=spec.source):
        measured = row.data.get("rollout_seconds")
        if isinstance(measured, Mapping) and isinstance(measured.get("median"), int | float):
            return float(measured["median"])
    return None
