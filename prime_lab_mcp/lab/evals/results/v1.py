"""v1 episodes (`traces.jsonl` of verifiers 0.2.1 and newer): one rollout per trained agent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.evals.results.rollout import Rollout
from prime_lab_mcp.lab.evals.results.values import number, text_of, whole


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    traces = record.get("traces", [record])
    task = record.get("task") or {}
    trained = [t for t in traces if (t.get("agent") or {}).get("trainable", True)] or traces
    if not trained:
        yield Rollout(_key(task), None, error=_told(record.get("errors")) or "no trace was recorded", record=record)
    for trace in trained:
        yield _trace(trace, record, several=len(trained) > 1)


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], *, several: bool) -> Rollout:
    rewards = trace.get("rewards") or {}
    errors = _told(trace.get("errors")) or _told(episode.get("errors"))
    # A score of NaN is written as null; a reward whose hook raised is null as a whole.
    nonfinite = any(isinstance(r, dict) and number(r.get("score")) is None for r in rewards.values())
    complete = bool(rewards) and all(isinstance(r, dict) for r in rewards.values())
    components = {
        n: (score, number(r.get("weight", 1.0)) or 0.0)
        for n, r in rewards.items()
        if isinstance(r, dict) and (score := number(r.get("score"))) is not None
    }
    if errors is None and not complete and not nonfinite:
        errors = "it was not scored" if rewards or not trace.get("ok", True) else "the environment gave it no reward"
    calls = trace.get("calls") or []
    replies = [
        n["message"] for n in trace.get("nodes") or [] if n.get("sampled") and isinstance(n.get("message"), dict)
    ]
    key = _key(trace.get("task") or episode.get("task") or {})
    name = (trace.get("agent") or {}).get("name")
    scored = errors is None and not nonfinite
    return Rollout(
        task=f"{key}/{name}" if several and name else key,
        reward=math.fsum(s * (w or 0.0) for s, w in components.values()) if scored else None,
        components=components,
        metrics={k: n for k, v in (trace.get("metrics") or {}).items() if (n := number(v)) is not None},
        error=errors,
        truncated=bool(calls and calls[-1].get("finish_reason") == "length") or trace.get("stop_condition") in _CUT,
        prompt_tokens=whole(trace.get("num_input_tokens")),
        completion_tokens=whole(trace.get("num_output_tokens")),
        seconds=_span(trace.get("timing")),
        completion_text="\n".join(text for m in replies if (text := text_of(m.get("content")))),
        stop=trace.get("stop_condition"),
        nonfinite=nonfinite and errors is None,
        id=str(trace.get("id") or episode.get("id") or ""),
        record=trace,
    )


_CUT = frozenset({"max_output_tokens", "max_total_tokens", "max_input_tokens", "context_length"})


def _key(task: Mapping[str, Any]) -> str:
    data = task.get("data") or {}
    return str(task.get("key") or data.get("idx") or task.get("hash") or "?")


def _told(errors: Any) -> str | None:
    if not isinstance(errors, Sequence) or isinstance(errors, str) or not errors:
        return None
    first = errors[0]
    if not isinstance(first, Mapping):
        return str(first)
    status = f" {first['status_code']}" if first.get("status_code") else ""
    return f"{first.get('type', 'error')}{status}: {first.get('message', '')}"


def _span(timing: Any) -> float:
    if not isinstance(timing, Mapping):
        return 0.0
    ends = [s["end"] for s in timing.values() if isinstance(s, Mapping) and isinstance(s.get("end"), int | float)]
    start = timing.get("start")
    return max(0.0, max(ends) - start) if ends and isinstance(start, int | float) else 0.0
