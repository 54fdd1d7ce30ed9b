"""`summary`: what an evaluation measured, with intervals over tasks, what made it, and what its verdict found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from prime_lab_mcp.lab.distribution.intervals import Interval, clustered, wilson
from prime_lab_mcp.lab.distribution.tasks import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.judging import Judged
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.verdicts import summary_of
from prime_lab_mcp.lab.evals.views.columns import CUT, FAILED, ZERO, Columns, Tally, scored
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.report import Finding, Next
from prime_lab_mcp.lab.text import rounded

Files = Literal["present", "changed", "gone", "on the Hub"]
"""Whether the environment is still what was evaluated."""


def summary(evaluated: Evaluated, judged: Judged, files: Files) -> Viewed:
    """The numbers with their intervals; the judgement is the one that the gates use."""
    columns = Columns(evaluated.spec.weights)
    for rollout in evaluated.rollouts():
        columns.add(rollout)
    tallies = list(scored(columns.tallies()))
    spec, best = evaluated.spec, columns.best
    failed, cut, zero = (sum(bool(f & bit) for f in columns.flags) for bit in (FAILED, CUT, ZERO))
    mean = _mean(tallies)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "environment": spec.environment,
        "model": spec.model,
        "status": judged.status,
        **judged.data,
        "tasks": len(columns.keys),
        "rollouts": len(columns),
        "completed": len(columns) - failed,
        "errors": failed,
        "truncated": cut,
        "zeros": zero,
        "mean_reward": _shown(mean, best) if mean else None,
        "pass_rate": {"threshold": PASS_THRESHOLD, **rate(tallies, [t.passed for t in tallies])},
        "perfect_rate": rate(tallies, [t.perfect for t in tallies]),
        "tokens": {"prompt": columns.prompt_tokens, "completion": columns.completion_tokens},
        "made_by": made_by(spec, files),
    }
    if spec.price is not None:
        data["cost"] = round(spec.price.of(columns.prompt_tokens, columns.completion_tokens), 4)
    findings = (*judged.findings, *_stale(spec, files))
    return Viewed(summary_of(spec, judged), data, findings, _next(evaluated.id, data, judged))


def rate(tallies: Sequence[Tally], hits: Sequence[int]) -> dict[str, Any]:
    """A share of rollouts with its 95 % interval: Wilson's for one rollout a task, over tasks for several."""
    n = sum(t.n for t in tallies)
    if n == 0:
        return {"share": None, "low": None, "high": None}
    share = sum(hits) / n
    if n == len(tallies):
        found = wilson(sum(hits), n)
    else:
        over_tasks, _ = clustered([h / t.n for h, t in zip(hits, tallies, strict=True)], n)
        found = Interval(share, max(0.0, min(share, over_tasks.low)), min(1.0, max(share, over_tasks.high)))
    return {"share": rounded(share), "low": rounded(found.low), "high": rounded(found.high)}


def made_by(spec: EvalSpec, files: Files) -> dict[str, Any]:
    """What a number of this evaluation rests on."""
    found: dict[str, Any] = {
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
    return {name: value for name, value in found.items() if value is not None}


def _mean(tallies: Sequence[Tally]) -> Interval | None:
    if not tallies:
        return None
    return clustered([t.mean for t in tallies], sum(t.n for t in tallies))[0]


def _shown(mean: Interval, best: float) -> dict[str, float | None]:
    """Of rewards as the environment gives them; `mean` in the judgement is of what is attainable."""
    return {"value": rounded(mean.value * best), "low": rounded(mean.low * best), "high": rounded(mean.high * best)}


def _stale(spec: EvalSpec, files: Files) -> tuple[Finding, ...]:
    if files in ("present", "on the Hub"):
        return ()
    what = "has other files now" if files == "changed" else "is not in this workspace any more"
    return (
        Finding(
            "eval-stale", "info", f"{spec.environment} {what}: this shows how it was, and opens no gate",
            "Run run_eval on the present files.",
        ),
    )  # fmt: skip


def _next(id: str, data: Mapping[str, Any], judged: Judged) -> tuple[Next, ...]:
    views = []
    if data["zeros"] or data["errors"] or data["truncated"]:
        views.append(("zeros", "why rollouts got nothing"))
    views += [
        ("rollouts", "the replies themselves, most suspicious first"),
        ("difficulty", "which tasks can be trained on, and how"),
    ]
    if judged.status == "passed":
        views.reverse()
    return tuple(Next("read_eval", why, {"eval": id, "view": view}) for view, why in views)
