"""Rollouts of the platform: what `prime train rollouts` and `prime eval samples` print (prime 0.18, prime-evals 0.2.4).

The platform passes samples on as they were uploaded, so their fields are those of v0 with others of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.results import v0, v1
from prime_lab_mcp.lab.evals.results.rollout import MadeBy, Rollout
from prime_lab_mcp.lab.evals.results.values import (
    NOT_SCORED,
    is_number,
    mapping,
    name,
    number,
    numbers,
    said,
    whole,
)  # fmt: skip

TASK = ("example_id", "task_key", "problem_id", "task_id", "exampleId", "taskId", "problemId")
REWARD = ("reward", "score")
_ENVIRONMENT = ("env_name", "envName", "environment", "env_id")
_MODEL = ("model", "model_name", "modelName")
_PROMPT = ("prompt_tokens", "num_input_tokens", "input_tokens", "promptTokens", "numInputTokens")
_COMPLETION = ("completion_tokens", "num_output_tokens", "output_tokens", "completionTokens", "numOutputTokens")
_CUT = v0.CUT | v1.CUT


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    task = _task(record)
    reward = _first(record, REWARD)
    error = v0.failure(record.get("error")) or (None if is_number(reward) else NOT_SCORED)
    info = mapping(record.get("info"))
    metrics = numbers(record.get("metrics") or info.get("metrics"))
    found = number(reward)
    stop = name(_first(record, ("stop_condition", "stopCondition"))) or None
    yield Rollout(
        task=task,
        reward=None if error else found,
        components=v0.components(metrics),
        metrics=metrics,
        error=error,
        truncated=_truncated(record, stop),
        prompt_tokens=_tokens(record, _PROMPT),
        completion_tokens=_tokens(record, _COMPLETION),
        seconds=number(mapping(record.get("timing")).get("total")) or 0.0,
        completion_text=said(record.get("completion") or record.get("output")),
        stop=stop,
        nonfinite=error is None and found is None,
        id=_identity(record, task),
        record=record,
        made_by=MadeBy(name(_first(record, _ENVIRONMENT)), "", name(_first(record, _MODEL))),
    )


def _task(record: Mapping[str, Any]) -> str:
    found = _first(record, TASK)
    if found is None:
        prompt = record.get("prompt") or record.get("input")
        found = said(prompt) if isinstance(prompt, list) else prompt
    return str(found)


def _identity(record: Mapping[str, Any], task: str) -> str:
    """Of a sample alone: `sample_id` and numbers may be those of its problem, which every rollout of it repeats."""
    found = record.get("id")
    return found if isinstance(found, str) and found != task else ""


def _truncated(record: Mapping[str, Any], stop: str | None) -> bool:
    said = _first(record, ("is_truncated", "isTruncated", "truncated"))
    finish = _first(record, ("finish_reason", "finishReason"))
    return bool(said) or finish == "length" or stop in _CUT


def _tokens(record: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for place in (record, mapping(record.get("token_usage")), mapping(record.get("usage"))):
        found = whole(_first(place, names))
        if found:
            return found
    return 0


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[n] for n in names if record.get(n) is not None), None)
