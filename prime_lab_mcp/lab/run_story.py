"""What a person asks of a run, from what the platform told: numbers, checkpoints, telling rollouts and log lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.run_metrics import (
    GRADIENT,
    Series,
    entropy,
    errors,
    held_out,
    mismatch,
    reward,
    silent,
    tokens,
    truncated,
)
from prime_lab_mcp.lab.series import WINDOW, Point, Row, points_of, smooth, step_of
from prime_lab_mcp.lab.text import quote

SHOWN_TEXT = 160
"""Characters of a completion or log line that are shown."""
_ERROR_LINE = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w*(?:Error|Exception))\b")


def recent(rows: Sequence[Row], count: int = 5) -> list[dict[str, Any]]:
    """The newest rows with the few numbers that a person looks at first."""
    gradient = Series(GRADIENT, points_of(rows, GRADIENT))
    told = {
        "reward": reward(rows), "tokens": tokens(rows), "truncated": truncated(rows), "errors": errors(rows),
        "no_gradient": silent(rows), "entropy": entropy(rows), "mismatch_kl": mismatch(rows), "grad_norm": gradient,
    }  # fmt: skip
    shown: list[dict[str, Any]] = [{"step": step_of(row)} for row in rows[-count:]]
    for name, found in told.items():
        values = dict(found.points)
        for row in shown:
            if (value := values.get(row["step"])) is not None:
                row[name] = _short(value)
    return shown


def reward_story(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Where the mean reward began, where it is and where it was best."""
    points = reward(rows).points
    if not points:
        return None
    best = max(points, key=lambda p: p[1])
    return {
        "first": round(points[0][1], 4), "now": round(points[-1][1], 4), "best": round(best[1], 4),
        "best_step": best[0],
    }  # fmt: skip


def held_out_story(rows: Sequence[Row]) -> dict[str, Any]:
    """Mean reward on each eval source: first, last and best, each as [step, mean]."""
    return {
        source: {"first": _pair(points[0]), "last": _pair(points[-1]), "best": _pair(max(points, key=lambda p: p[1]))}
        for source, points in list(held_out(rows).items())[:5]
        if points
    }


def best_checkpoint(checkpoints: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> dict[str, Any] | None:
    """The checkpoint nearest to the best held-out reward; without evals, nearest to the best stretch of training."""
    kept = [(int(step), c) for c in checkpoints if (step := number(c.get("step"))) is not None and math.isfinite(step)]
    evals = [points for points in held_out(rows).values() if points]
    told = evals[0] if evals else smooth(reward(rows).points, WINDOW)
    if not kept or not told:
        return None

    def level(step: int) -> float:
        return min(told, key=lambda p: (abs(p[0] - step), p[0]))[1]

    step, best = max(kept, key=lambda c: (level(c[0]), c[0]))
    by = "held-out reward" if evals else "training reward"
    return {"step": step, "id": best.get("id"), "by": by, "reward": _short(level(step))}


def expected(rows: Sequence[Row], step: int | None, max_steps: float | None, spend: float | None) -> float | None:
    """US dollars at the end, at the pace and price so far."""
    first = step_of(rows[0]) if rows else None
    if first is None or step is None or max_steps is None or spend is None or step - first < WINDOW - 1:
        return None
    return spend * max(1.0, (max_steps - first) / (step - first + 1))


def telling(answer: Mapping[str, Any], each: int = 2) -> dict[str, Any] | None:
    """The best and the worst rollouts of a step, completions quoted."""
    samples = [s for s in answer.get("samples") or () if isinstance(s, dict) and _reward(s) is not None]
    ranked = [_rollout(s) for s in sorted(samples, key=lambda s: -(_reward(s) or 0.0))]
    # The same words twice tell nothing more.
    distinct = list({(r["reward"], r["completion"]): r for r in reversed(ranked)}.values())[::-1]
    if not distinct:
        return None
    return {
        "step": samples[0].get("step"),
        "of": answer.get("total") or len(samples),
        "looked_at": len(samples),
        "best": distinct[:each],
        "worst": distinct[each:][-each:][::-1],
    }


def error_lines(log: str, count: int = 5) -> list[str]:
    """The last lines of a log that speak of an error, quoted; where none does, its last lines."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    wrong = [line for line in lines if _ERROR_LINE.search(line)]
    return [quote(line, SHOWN_TEXT) for line in (wrong or lines)[-count:]]


def _rollout(sample: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "reward": _short(_reward(sample) or 0.0),
        "advantage": number(sample.get("advantage")),
        "environment": sample.get("env_name"),
        "tokens": number(sample.get("num_output_tokens")),
        "completion": quote(_said(sample.get("completion")) or _said(sample.get("trajectory")), SHOWN_TEXT),
    }
    if isinstance(told["environment"], str):
        told["environment"] = quote(told["environment"], 60)
    return {key: value for key, value in told.items() if value is not None}


def _reward(sample: Mapping[str, Any]) -> float | None:
    value = number(sample.get("reward"))
    return value if value is not None and math.isfinite(value) else None


def _said(value: object, depth: int = 8) -> str:
    """The last thing the model wrote: a text, messages, or either as JSON (the platform has all three)."""
    if isinstance(value, str):
        if value[:1] in "[{" and value and depth:
            try:
                return _said(json.loads(value), depth - 1)
            except (ValueError, RecursionError):
                return value
        return value
    if isinstance(value, Mapping):
        for key in ("content", "text", "completion", "messages"):
            if value.get(key) and depth:
                return _said(value[key], depth - 1)
        calls = value.get("tool_calls")
        return json.dumps(calls, ensure_ascii=False, default=str) if calls else ""
    if isinstance(value, Sequence) and depth:
        texts = (_said(part, depth - 1) for part in reversed(value))
        return next((text for text in texts if text), "")
    return ""


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _pair(point: Point) -> list[float]:
    return [point[0], _short(point[1])]
