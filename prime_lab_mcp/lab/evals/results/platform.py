"""Rollouts of the platform: what `prime train rollouts` and `prime eval samples` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.results.rollout import Rollout
from prime_lab_mcp.lab.evals.results.v0 import COUNTERS
from prime_lab_mcp.lab.evals.results.values import number, said, whole


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    task = next((record[k] for k in _TASK_KEYS if record.get(k) is not None), None)
    if task is None:
        prompt = record.get("prompt")
        task = said(prompt) if isinstance(prompt, list) else str(prompt)
    reward = number(record.get("reward"))
    error = record.get("error")
    info = record.get("info")
    metrics = record.get("metrics") or (info.get("metrics") if isinstance(info, Mapping) else None) or {}
    numbers = {k: n for k, v in metrics.items() if (n := number(v)) is not None} if isinstance(metrics, Mapping) else {}
    yield Rollout(
        task=str(task),
        reward=None if error else reward,
        components={k: (v, None) for k, v in numbers.items() if k not in COUNTERS},
        metrics=numbers,
        error=str(error) if error else None,
        truncated=bool(record.get("is_truncated") or record.get("truncated")),
        prompt_tokens=whole(record.get("prompt_tokens") or record.get("num_input_tokens")),
        completion_tokens=whole(record.get("completion_tokens") or record.get("num_output_tokens")),
        completion_text=said(record.get("completion")),
        stop=record.get("stop_condition"),
        nonfinite=not error and reward is None,
        id=str(record.get("id") or record.get("sample_id") or ""),
        record=record,
    )


_TASK_KEYS = ("example_id", "task_key", "problem_id", "task_id", "exampleId", "taskId", "problemId")
