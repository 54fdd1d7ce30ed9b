"""A job's results as `prime eval push` takes them: metadata.json and results.jsonl, one rollout per line.

That is the layout of verifiers 0.2; v1 episodes are told in it by what every platform page shows: prompt, completion,
answer, reward and metrics.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.conversation import Message, conversation, gold, task_data
from prime_lab_mcp.lab.evals.results import Rollout, read
from prime_lab_mcp.lab.evals.spec import EvalSpec


def write(spec: EvalSpec, results: Path, folder: Path, ref: str, facts: Mapping[str, Any]) -> int:
    """Fill `folder`; returns the number of rollouts. `facts` are told in the metadata beside what was evaluated."""
    folder.mkdir(parents=True, exist_ok=True)
    sums: dict[str, list[float]] = defaultdict(list)
    places: dict[str, int] = {}
    number = 0
    with (folder / "results.jsonl").open("w", encoding="utf-8") as sink:
        for rollout in read(results):
            row = _row(rollout, places.setdefault(rollout.task, len(places)))
            sink.write(json.dumps(_finite(row), ensure_ascii=False, default=str) + "\n")
            number += 1
            scores = {"reward": rollout.reward, **rollout.metrics, **{k: v for k, (v, _) in rollout.components.items()}}
            for name, score in scores.items():
                if score is not None:
                    sums[name].append(score)
    metadata = {
        "env_id": ref, "env": ref, "model": spec.model, "num_examples": len(places),
        "rollouts_per_example": spec.rollouts, "sampling_args": spec.sampling, "env_args": dict(spec.env_args),
        "framework": "verifiers", "verifiers_version": spec.verifiers, **facts,
        **{f"avg_{name}": math.fsum(values) / len(values) for name, values in sums.items()},
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(_finite(metadata), default=str), encoding="utf-8")
    return number


def _row(rollout: Rollout, example: int) -> dict[str, Any]:
    said = conversation(rollout)
    first = next((i for i, m in enumerate(said) if m.role == "assistant"), len(said))
    return {
        "example_id": example, "task": rollout.task, "rollout_id": rollout.id,
        "prompt": [_message(m) for m in said[:first]], "completion": [_message(m) for m in said[first:]],
        "answer": gold(rollout), "reward": rollout.reward, "error": rollout.error,
        "metrics": {**rollout.metrics, **{k: v for k, (v, _) in rollout.components.items()}},
        "is_truncated": rollout.truncated, "stop_condition": rollout.stop, "info": dict(task_data(rollout)),
        "num_input_tokens": rollout.prompt_tokens, "num_output_tokens": rollout.completion_tokens,
    }  # fmt: skip


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        told["reasoning_content"] = message.reasoning
    if message.calls:
        told["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.calls
        ]
    if message.answers:
        told["tool_call_id"] = message.answers
    return told


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity; the platform refuses them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
