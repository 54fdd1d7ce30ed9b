"""v0 rollouts (`results.jsonl`, with `metadata.json` beside it)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.results.rollout import Rollout
from prime_lab_mcp.lab.evals.results.values import number, said, whole


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    error = record.get("error")
    told = None
    if error:
        told = str(error.get("error_chain_str") or error.get("error")) if isinstance(error, Mapping) else str(error)
    reward = number(record.get("reward"))
    usage = record.get("token_usage") or {}
    metrics = {k: n for k, v in (record.get("metrics") or {}).items() if (n := number(v)) is not None}
    timing = record.get("timing") or {}
    completion = record.get("completion")
    yield Rollout(
        task=str(record.get("example_id")),
        reward=None if told else reward,
        components={k: (v, None) for k, v in metrics.items() if k not in COUNTERS},
        metrics=metrics,
        error=told,
        truncated=bool(record.get("is_truncated")),
        prompt_tokens=whole(usage.get("input_tokens")),
        completion_tokens=whole(usage.get("output_tokens")),
        seconds=number(timing.get("total")) or 0.0,
        completion_text=said(completion),
        stop=record.get("stop_condition"),
        nonfinite=told is None and reward is None,
        id=str(record.get("rollout_id") or ""),
        record=record,
    )


COUNTERS = frozenset({"num_turns", "total_tool_calls"})
"""Metrics that v0 records by itself, besides the reward functions."""
