"""Past evaluations with what each is good for: of the model to be trained, of another, dead, or no measurement at all.

The model to be trained is one that a training config or run of this workspace names for the environment. Where none
does, every model whose weights are to be had may still become it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals.jobs import LIVE
from prime_lab_mcp.lab.records import Evidence, Job

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

Class = Literal["target", "ceiling", "dead", "faulty"]

FAULTY = frozenset({
    "eval-all-errors", "eval-errors", "eval-capped", "eval-results-changed", "eval-results-missing",
    "distribution-nonfinite", "distribution-truncated",
})  # fmt: skip
"""Blockers that say a number measures the machinery rather than the model."""
_CLOSED = re.compile(r"(?i)(?:^|/)(?:gpt-(?!oss|j|neo|2\b)|chatgpt|o[134](?:-|$)|claude|gemini|grok)|^anthropic/")
"""Models whose weights nobody outside can train, by name."""


def listed(lab: Lab, limit: int) -> list[dict[str, Any]]:
    """The newest evaluations of this workspace as `watch_run` lists them."""
    rows = {row.arguments.get("id"): row for row in reversed(lab.ledger.evidence(lab.key, tool="run_eval"))}
    trained = _trained(lab)
    return [_row(job, rows.get(job.id), trained) for job in lab.evals.list()[:limit]]


def class_of(job: Job, row: Evidence | None, trained: Iterable[str]) -> tuple[Class | None, str | None]:
    """(class, why). No class for one that still runs, or that nothing here could judge."""
    if job.state in LIVE:
        return None, None
    if job.state != "finished":
        return "faulty", f"it {job.state} before it was done"
    if row is None:
        return None, "it was not judged here"
    wrong = [code for code in row.blockers if code in FAULTY]
    if wrong:
        return "faulty", f"its verdict names {', '.join(wrong)}"
    model = str(row.model or job.spec.get("model") or "")
    mean = _mean(row)
    if mean is not None and mean <= 0:
        return "dead", "no rollout earned anything"
    if _CLOSED.search(model):
        return "ceiling", "a closed model, which cannot be trained"
    known = {name.lower() for name in trained}
    if known and model.lower() not in known:
        return "ceiling", f"training is meant for {', '.join(sorted(trained)[:2])}"
    return "target", None if known else "no training config names a model for this environment yet"


def _row(job: Job, row: Evidence | None, trained: Mapping[str, set[str]]) -> dict[str, Any]:
    found, why = class_of(job, row, trained.get(_plain(job.environment), set()))
    shown: dict[str, Any] = {
        "id": job.id,
        "kind": "eval",
        "status": job.state,
        "environment": job.environment,
        "model": job.spec.get("model"),
        "class": found,
        "why": why,
        "completed": job.progress.get("completed"),
        "mean": _mean(row) if row else None,
        "verdict": row.status if row else None,
    }
    return {key: value for key, value in shown.items() if value is not None}


def _mean(row: Evidence) -> float | None:
    value = row.data.get("mean_reward")
    return float(value) if isinstance(value, int | float) else None


def _trained(lab: Lab) -> dict[str, set[str]]:
    """Environment to the models that configs and runs of this workspace train on it."""
    found: dict[str, set[str]] = {}
    named = [(run.data.get("environments"), run.data.get("model")) for run in lab.ledger.runs(workspace=lab.key)]
    for environments, model in [*_configured(lab), *named]:
        for environment in environments if isinstance(environments, list | tuple) else ():
            if isinstance(model, str):
                found.setdefault(_plain(str(environment)), set()).add(model)
    return found


def _configured(lab: Lab) -> list[tuple[tuple[str, ...], str]]:
    from prime_lab_mcp.lab.configs.registry import REGISTRY, load

    try:
        entries = load(lab.workspace.resolve(REGISTRY))
    except LabError:
        return []  # check_training_config says what is wrong with the registry
    return [(entry.environments, entry.model) for entry in entries if entry.active]


def _plain(environment: str) -> str:
    """`owner/my-env@0.1.0` and the folder `environments/my_env` are one environment."""
    return environment.partition("@")[0].rstrip("/").rpartition("/")[2].replace("-", "_").lower()
