"""Why a rollout earned nothing, as the page of an evaluation counts it."""

from __future__ import annotations

from prime_lab_mcp.lab.evals.results import Rollout


def zero_of(rollout: Rollout) -> str | None:
    """The class of a rollout that earned nothing; None where it earned something.

    `unparsed` is told by a component that judges the form (its name says format or parse) and gave nothing.
    """
    if rollout.error is not None or rollout.nonfinite:
        return "infrastructure"
    form: list[float] = []
    rest: list[float] = []
    for name, (score, _) in rollout.components.items():
        (form if "format" in name or "pars" in name else rest).append(score)
    if (sum(rest) if rest else (rollout.reward or 0.0)) > 0:
        return None
    if rollout.truncated:
        return "truncated"
    if not rollout.completion_text.strip():
        return "empty_response"
    return "unparsed" if form and max(form) <= 0 else "wrong"
