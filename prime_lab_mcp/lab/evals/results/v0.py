"""v0 rollouts (`results.jsonl`, with `metadata.json` beside it), as verifiers 0.1.14 to 0.3.1 write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.results.rollout import Rollout
from prime_lab_mcp.lab.evals.results.values import (
    NOT_SCORED,
    is_number,
    mapping,
    name,
    number,
    numbers,
    said,
    text_of,
    whole,
)  # fmt: skip

COUNTERS = frozenset({"num_turns", "total_tool_calls"})
"""Metrics that v0 records by itself, besides the reward functions."""
CUT = frozenset({"prompt_too_long", "max_total_completion_tokens_reached"})
"""Stop conditions of `MultiTurnEnv` that cut a rollout off. Every single turn ends with `max_turns_reached`."""


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    reward = record.get("reward")
    error = failure(record.get("error")) or (None if is_number(reward) else NOT_SCORED)
    usage = mapping(record.get("token_usage"))
    metrics = numbers(record.get("metrics"))
    timing = mapping(record.get("timing"))
    stop = name(record.get("stop_condition")) or None
    found = number(reward)
    yield Rollout(
        task=str(record.get("example_id")),
        reward=None if error else found,
        components=components(metrics),
        metrics=metrics,
        error=error,
        truncated=bool(record.get("is_truncated")) or stop in CUT,
        prompt_tokens=whole(usage.get("input_tokens")) or whole(usage.get("final_input_tokens")),
        completion_tokens=whole(usage.get("output_tokens")) or whole(usage.get("final_output_tokens")),
        seconds=number(timing.get("total")) or 0.0,
        completion_text=said(record.get("completion")),
        stop=stop,
        nonfinite=error is None and found is None,
        id=identity(record.get("example_id"), number(timing.get("start_time"))),
        record=record,
    )


def failure(error: Any) -> str | None:
    if not error:
        return None
    if not isinstance(error, dict):
        return text_of(error) or str(error)
    return str(error.get("error_chain_str") or error.get("error") or "error")


def components(metrics: Mapping[str, float]) -> dict[str, tuple[float, float | None]]:
    return {k: (v, None) for k, v in metrics.items() if k not in COUNTERS}


def identity(example: Any, started: float | None) -> str:
    """v0 numbers no rollout: the instant it started (in seconds, of a microsecond's grain) tells two of one task."""
    return f"{example}@{started!r}" if started else ""
