"""Small evaluations with a known truth: v1 traces as vf-eval writes them, behind an `Evaluated`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.rollouts.reading import read_rollouts

WEIGHTS = {"correct": 1.0}


def trace(
    task: str,
    score: float | None,
    reply: str = "<answer>41</answer>",
    *,
    data: Mapping[str, Any] | None = None,
    tokens: int = 20,
    weights: Mapping[str, float] = WEIGHTS,
    scores: Mapping[str, float] | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    **changes: Any,
) -> dict[str, Any]:
    """One v1 episode; `score` None is one that failed. `messages` stand between the question and the reply."""
    number = trace.made = getattr(trace, "made", 0) + 1  # type: ignore[attr-defined]
    given = {"correct": score, **(scores or {})} if score is not None else {}
    key = {"key": task, "data": {"prompt": f"question {task}", "answer": "42", **(data or {})}}
    nodes = [{"message": {"role": "user", "content": f"question {task}"}, "sampled": False}]
    nodes += [{"message": dict(m), "sampled": m.get("role") == "assistant"} for m in messages]
    nodes.append({"message": {"role": "assistant", "content": reply}, "sampled": True})
    made = {
        "id": f"rollout{number:06d}",
        "task": key,
        "agent": {"name": "agent", "trainable": True},
        "nodes": nodes,
        "calls": [{"finish_reason": "stop"}],
        "rewards": {name: {"score": s, "weight": weights.get(name, 1.0)} for name, s in given.items()},
        "metrics": {"chars": float(len(reply))},
        "ok": score is not None,
        "errors": [] if score is not None else [{"type": "ProviderError", "message": "down", "status_code": 503}],
        "stop_condition": "agent_completed",
        "num_input_tokens": 30,
        "num_output_tokens": tokens,
        "timing": {"start": 1.0, "scoring": {"start": 2.0, "end": 3.0}},
    } | changes
    return {"id": f"episode{number}", "task": key, "traces": [made], "errors": made["errors"], "ok": made["ok"]}


def spec(**changes: Any) -> EvalSpec:
    values: dict[str, Any] = {
        "environment": "sums_v1",
        "source": "a" * 64,
        "content": "b" * 64,
        "tree": Path("tree"),
        "api": "v1",
        "module": "sums_v1",
        "python": Path("python"),
        "program": Path("vf-eval"),
        "verifiers": "0.4.0",
        "model": "owner/small",
        "endpoint": Endpoint("url", "http://127.0.0.1:9/v1"),
        "num_examples": 50,
        "rollouts": 8,
        "tasks": 500,
        "max_tokens": 512,
    }
    return EvalSpec(**(values | changes))


def evaluated(
    folder: Path, episodes: Iterable[Mapping[str, Any]], id: str = "eval-1", **changes: Any
) -> FinishedEvaluation:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "traces.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(e) + "\n" for e in episodes)
    return FinishedEvaluation(id, spec(**changes), lambda: read_rollouts(path))


def played(rates: Mapping[str, float], rollouts: int = 8, seed: int = 0, **given: Any) -> list[dict[str, Any]]:
    """Rollouts of tasks that are solved at these rates; `given` may hold `data`, a function of the task key."""
    rng = random.Random(seed)
    data = given.pop("data", lambda key: {})
    found = []
    for key, rate in rates.items():
        for _ in range(rollouts):
            solved = rng.random() < rate
            reply = f"<answer>{42 if solved else 41}</answer>"
            found.append(trace(key, float(solved), reply, data=data(key), **given))
    return found
