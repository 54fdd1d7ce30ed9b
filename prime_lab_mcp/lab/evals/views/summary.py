"""The view `summary` of read_eval: the numbers of an evaluation with their intervals, its settings and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.statistics import Interval, clustered_interval, wilson_interval
from prime_lab_mcp.lab.base.text import rounded
from prime_lab_mcp.lab.distribution.sample import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.outcomes import verdict_summary
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.evals.views.columns import (
    FAILED_ROLLOUT,
    TRUNCATED_ROLLOUT,
    ZERO_ROLLOUT,
    Columns,
    FinishedEvaluation,
    TaskTally,
    ViewResult,
    scored_tasks,
)

Files = Literal["present", "changed", "gone", "on the Hub"]
"""Whether the environment still has the files that were evaluated."""


def summary_view(evaluated: FinishedEvaluation, verdict: EvaluationVerdict, files: Files) -> ViewResult:
    """Return the summary of an evaluation. `verdict` is the verdict that the gates use."""
    columns = Columns(evaluated.spec.weights)
    for rollout in evaluated.rollouts():
        columns.add(rollout)
    tallies = list(scored_tasks(columns.tallies()))
    spec, best = evaluated.spec, columns.best
    failed, cut, zero = (
        sum(bool(f & bit) for f in columns.flags) for bit in (FAILED_ROLLOUT, TRUNCATED_ROLLOUT, ZERO_ROLLOUT)
    )
    mean = _mean(tallies)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "environment": spec.environment,
        "model": spec.model,
        "status": verdict.status,
        **verdict.data,
        "tasks": len(columns.keys),
        "rollouts": len(columns),
        "completed": len(columns) - failed,
        "errors": failed,
        "truncated": cut,
        "zeros": zero,
        "mean_reward": _reward_interval(mean, best) if mean else None,
        "pass_rate": {"threshold": PASS_THRESHOLD, **rate_interval(tallies, [t.passed for t in tallies])},
        "perfect_rate": rate_interval(tallies, [t.perfect for t in tallies]),
        "tokens": {"prompt": columns.prompt_tokens, "completion": columns.completion_tokens},
        "made_by": evaluation_basis(spec, files),
    }
    if spec.price is not None:
        data["cost"] = round(spec.price.of(columns.prompt_tokens, columns.completion_tokens), 4)
    findings = (*verdict.findings, *_stale(spec, files))
    return ViewResult(verdict_summary(spec, verdict), data, findings, _next(evaluated.id, data, verdict))


def rate_interval(tallies: Sequence[TaskTally], hits: Sequence[int]) -> dict[str, Any]:
    """Return a share of rollouts with its 95 % interval: `{share, low, high}`.

    `hits` is the number of counted rollouts for each of `tallies`. The interval is Wilson's if each task has one
    rollout, and clustered by task otherwise.
    """
    n = sum(t.n for t in tallies)
    if n == 0:
        return {"share": None, "low": None, "high": None}
    share = sum(hits) / n
    if n == len(tallies):
        interval = wilson_interval(sum(hits), n)
    else:
        over_tasks, _ = clustered_interval([h / t.n for h, t in zip(hits, tallies, strict=True)], n)
        interval = Interval(share, max(0.0, min(share, over_tasks.low)), min(1.0, max(share, over_tasks.high)))
    return {"share": rounded(share), "low": rounded(interval.low), "high": rounded(interval.high)}


def evaluation_basis(spec: EvalSpec, files: Files) -> dict[str, Any]:
    """Return the settings on which the numbers of an evaluation depend."""
    settings: dict[str, Any] = {
        "endpoint": spec.endpoint.host,
        "harness": spec.harness_name,
        "runtime": spec.runtime if spec.api == "v1" else None,
        "sampling": spec.sampling,
        "env_args": dict(spec.env_args),
        "order": spec.order,
        "asked": {"tasks": spec.planned_tasks, "of": spec.tasks, "rollouts": spec.rollouts},
        "verifiers": spec.verifiers,
        "source": spec.source[:12],
        "files": files,
        "hosted": spec.hosted,
        "rescored": spec.rescored,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _mean(tallies: Sequence[TaskTally]) -> Interval | None:
    if not tallies:
        return None
    return clustered_interval([t.mean for t in tallies], sum(t.n for t in tallies))[0]


def _reward_interval(mean: Interval, best: float) -> dict[str, float | None]:
    """Return an interval in units of the environment's reward, from one in shares of the attainable reward `best`."""
    return {"value": rounded(mean.value * best), "low": rounded(mean.low * best), "high": rounded(mean.high * best)}


def _stale(spec: EvalSpec, files: Files) -> tuple[Finding, ...]:
    if files in ("present", "on the Hub"):
        return ()
    change = "has other files now" if files == "changed" else "is not in this workspace any more"
    return (
        Finding(
            "eval-stale",
            "info",
            f"{spec.environment} {change}: this shows how it was, and opens no gate",
            "Run run_eval on the present files.",
        ),
    )


def _next(id: str, data: Mapping[str, Any], verdict: EvaluationVerdict) -> tuple[Next, ...]:
    views = []
    if data["zeros"] or data["errors"] or data["truncated"]:
        views.append(("zeros", "why rollouts got nothing"))
    views += [
        ("rollouts", "the replies themselves, most suspicious first"),
        ("difficulty", "which tasks can be trained on, and how"),
    ]
    if verdict.status == "passed":
        views.reverse()
    return tuple(Next("read_eval", why, {"eval": id, "view": view}) for view, why in views)
