"""Summarises a run for a person: key numbers, checkpoints, best and worst rollouts, and log lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.training.metrics import (
    GRADIENT_NAME,
    WINDOW_STEPS,
    MetricPoint,
    MetricRow,
    MetricSeries,
    entropy_series,
    error_series,
    held_out_series,
    mismatch_series,
    points_of,
    reward_series,
    silent_group_series,
    smooth,
    step_of,
    token_series,
    truncation_series,
)

QUOTED_CHARACTERS = 160
"""Number of characters that are quoted from a completion or a log line."""
_ERROR_LINE = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w*(?:Error|Exception))\b")


def recent_rows(rows: Sequence[MetricRow], count: int = 5) -> list[dict[str, Any]]:
    """The newest rows, reduced to the few numbers that a person looks at first."""
    gradient = MetricSeries(GRADIENT_NAME, points_of(rows, GRADIENT_NAME))
    series = {
        "reward": reward_series(rows),
        "tokens": token_series(rows),
        "truncated": truncation_series(rows),
        "errors": error_series(rows),
        "no_gradient": silent_group_series(rows),
        "entropy": entropy_series(rows),
        "mismatch_kl": mismatch_series(rows),
        "grad_norm": gradient,
    }
    summaries: list[dict[str, Any]] = [{"step": step_of(row)} for row in rows[-count:]]
    for name, metric in series.items():
        by_step = dict(metric.points)
        for row in summaries:
            if (value := by_step.get(row["step"])) is not None:
                row[name] = _rounded(value)
    return summaries


def reward_summary(rows: Sequence[MetricRow]) -> dict[str, Any] | None:
    """The first, present and best mean reward."""
    points = reward_series(rows).points
    if not points:
        return None
    best = max(points, key=lambda p: p[1])
    return {
        "first": round(points[0][1], 4),
        "now": round(points[-1][1], 4),
        "best": round(best[1], 4),
        "best_step": best[0],
    }


def held_out_summary(rows: Sequence[MetricRow]) -> dict[str, Any]:
    """Mean reward on each eval source: first, last and best, each as [step, mean]."""
    return {
        source: {
            "first": _point(points[0]),
            "last": _point(points[-1]),
            "best": _point(max(points, key=lambda p: p[1])),
        }
        for source, points in list(held_out_series(rows).items())[:5]
        if points
    }


def best_checkpoint(checkpoints: Sequence[Mapping[str, Any]], rows: Sequence[MetricRow]) -> dict[str, Any] | None:
    """The checkpoint nearest to the best held-out reward or, without evaluations, to the best training reward."""
    saved = [
        (int(step), c)
        for c in checkpoints
        if (step := finite_number(c.get("step"))) is not None and math.isfinite(step)
    ]
    # Step 0 is the untrained model, which says nothing about a checkpoint.
    evals = [points for points in held_out_series(rows).values() if any(step > 0 for step, _ in points)]
    curve = evals[0] if evals else smooth(reward_series(rows).points, WINDOW_STEPS)
    if not saved or not curve:
        return None

    def level(step: int) -> float:
        return min(curve, key=lambda p: (abs(p[0] - step), p[0]))[1]

    step, best = max(saved, key=lambda c: (level(c[0]), c[0]))
    by = "held-out reward" if evals else "training reward"
    # One step says little: the mean of many is lower than the reward of its best step.
    means = {} if evals else {"mean_of_steps": min(WINDOW_STEPS, sum(s <= step for s, _ in curve))}
    return {"step": step, "id": best.get("id"), "by": by, "reward": _rounded(level(step)), **means}


def expected_spend(
    rows: Sequence[MetricRow], step: int | None, max_steps: float | None, spend: float | None
) -> float | None:
    """The expected cost of the whole run in US dollars, at its pace and price so far."""
    first = step_of(rows[0]) if rows else None
    if first is None or step is None or max_steps is None or spend is None or step - first < WINDOW_STEPS - 1:
        return None
    return spend * max(1.0, (max_steps - first) / (step - first + 1))


def instructive_rollouts(answer: Mapping[str, Any], each: int = 2) -> dict[str, Any] | None:
    """The best and the worst rollouts of a step, with their completions quoted."""
    samples = [s for s in answer.get("samples") or () if isinstance(s, dict) and _reward(s) is not None]
    ranked = [_rollout(s) for s in sorted(samples, key=lambda s: -(_reward(s) or 0.0))]
    # A repeated completion gives no new information.
    distinct = list({(r["reward"], r["completion"]): r for r in reversed(ranked)}.values())[::-1]
    lower = [r for r in distinct[each:] if r["reward"] < distinct[0]["reward"]]
    if not distinct:
        return None
    return {
        "step": samples[0].get("step"),
        "of": answer.get("total") or len(samples),
        "looked_at": len(samples),
        "best": distinct[:each],
        "worst": lower[-each:][::-1],
    }


def error_lines(log: str, count: int = 5) -> list[str]:
    """The last lines of a log that mention an error, quoted. Without such lines, the last lines of the log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    wrong = [line for line in lines if _ERROR_LINE.search(line)]
    return [quote(line, QUOTED_CHARACTERS) for line in (wrong or lines)[-count:]]


def _rollout(sample: Mapping[str, Any]) -> dict[str, Any]:
    text = _last_text(sample.get("completion")) or _last_text(sample.get("trajectory"))
    row = {
        "reward": _rounded(_reward(sample) or 0.0),
        "advantage": finite_number(sample.get("advantage")),
        "environment": sample.get("env_name"),
        "tokens": finite_number(sample.get("num_output_tokens")),
        "completion": quote(text, QUOTED_CHARACTERS),
    }
    if isinstance(row["environment"], str):
        row["environment"] = quote(row["environment"], 60)
    if isinstance(asked := sample.get("asked"), str):
        row |= {"task": quote(str(sample.get("task")), 40), "asked": quote(asked, 60)}
    return {key: value for key, value in row.items() if value is not None}


def _reward(sample: Mapping[str, Any]) -> float | None:
    value = finite_number(sample.get("reward"))
    return value if value is not None and math.isfinite(value) else None


def _last_text(value: object, depth: int = 8) -> str:
    """The last text that the model wrote. The platform sends a text, a list of messages, or either of them as JSON."""
    if isinstance(value, str):
        if value[:1] in "[{" and value and depth:
            try:
                return _last_text(json.loads(value), depth - 1)
            except (ValueError, RecursionError):
                return value
        return value
    if isinstance(value, Mapping):
        for key in ("content", "text", "completion", "messages"):
            if value.get(key) and depth:
                return _last_text(value[key], depth - 1)
        calls = value.get("tool_calls")
        return json.dumps(calls, ensure_ascii=False, default=str) if calls else ""
    if isinstance(value, Sequence) and depth:
        texts = (_last_text(part, depth - 1) for part in reversed(value))
        return next((text for text in texts if text), "")
    return ""


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _point(point: MetricPoint) -> list[float]:
    return [point[0], _rounded(point[1])]
