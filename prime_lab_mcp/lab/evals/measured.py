"""What is known of a rollout: its tokens and its seconds, as earlier calls and the running evaluation measured them.

Tokens are those of an evaluation of the same environment and model, as the endpoint counted them. Seconds are those of
the same evaluation, or else of the solutions that `test_reward` played in containers, where starting the container and
its files takes most of the time. Where nothing was measured, nothing is said. As soon as rollouts of the evaluation
itself have finished, or take longer than was foreseen, its own speed counts (`live_estimate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.text import count
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
    timed_by = timed_by if seconds is not None else ""
    return MeasuredRollout(prompt, completion, seconds, timed_by, best.id, completed, _otherwise(best, spec))


def _otherwise(job: Job, spec: EvalSpec) -> str:
    """How an evaluation differs from another in its arguments and, on the platform, in its version, in words."""
    differences = []
    if not same_arguments(job.spec.get("env_args") or {}, spec.env_args):
        differences.append("with other arguments")
    if spec.hosted is not None and job.source != spec.source:
        differences.append("with another version of the environment")
    return " and ".join(differences)


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


_FEW = 3
"""Fewest finished rollouts whose rate says how long the others take (our judgement)."""


def live_estimate(spec: EvalSpec, job: Job, now: float) -> dict[str, Any]:
    """Return the estimate of a running evaluation, with `minutes` in all and `minutes_left` by its own speed.

    While too few rollouts have finished, the estimate from before the start holds, until it has proven too short. Then
    `minutes` and `minutes_left` are what the rollouts take at least.
    """
    estimate = dict(spec.estimate)
    completed = int(job.progress.get("completed") or 0)
    left = int(job.progress.get("planned") or spec.planned) - completed
    attempt = _attempt(job)
    if job.state != "running" or attempt is None or left <= 0:
        return estimate
    seconds, finished = now - float(attempt["at"]), completed - int(attempt["completed"])
    together = min(spec.concurrency, left)
    if finished >= _FEW:
        # Those that run now are half done on average. Without them, the first ones would count for their whole wave.
        remaining = seconds / (finished + together / 2) * (left - together / 2)
    else:
        waves = -(-left // together)
        remaining = seconds * (waves - 1)
        if remaining + seconds <= 60 * float(estimate.get("minutes") or 0.0) or seconds < _TELLING:
            return estimate
    before = float(job.progress.get("seconds") or 0.0)
    minutes = {"minutes": round((before + seconds + remaining) / 60, 1), "minutes_left": round(remaining / 60, 1)}
    return estimate | minutes | {"timed_by": job.id}


def _attempt(job: Job) -> Mapping[str, Any] | None:
    """Return when the present attempt of a job began, and how many rollouts were finished then; None if unknown."""
    attempt = job.progress.get("attempt")
    if isinstance(attempt, Mapping):
        return attempt
    # Until the supervisor has said so: a job of one attempt began when it was made.
    return None if job.progress.get("seconds") else {"at": job.at, "completed": 0}


_TELLING = 60.0
"""Seconds without a finished rollout after which a running evaluation says how long it takes at least."""


def time_left_sentence(spec: EvalSpec, job: Job, now: float) -> str:
    """Return how long a running evaluation still takes; empty where that is below a minute or not known."""
    estimate = live_estimate(spec, job, now)
    left = estimate.get("minutes_left")
    if left is None:
        return spec.minutes_sentence
    attempt = _attempt(job) or {"at": now, "completed": 0}
    finished = int(job.progress.get("completed") or 0) - int(attempt["completed"])
    if finished < _FEW:
        some = f"only {count(finished, 'rollout')} in" if finished else "no rollout in"
        so_far = (now - float(attempt["at"])) / 60
        return f" It has finished {some} {count(round(so_far), 'minute')}: it takes at least {minutes_text(left)} more."
    if left < 1:
        return ""
    ends = (job.deadline - now) / 60
    late = f" Its time ends in {minutes_text(ends)}; the same call then goes on with the rest." if left > ends else ""
    if finished < spec.concurrency:
        first = f"By its first {count(finished, 'rollout')}, whose time holds the start as well,"
        return f" {first} it takes about {minutes_text(left)} more.{late}"
    return f" At the speed so far it takes about {minutes_text(left)} more.{late}"


def minutes_text(minutes: float) -> str:
    """Return a number of minutes in words, at least one."""
    return count(max(1, round(minutes)), "minute")
