"""v1 episodes (`traces.jsonl` of verifiers 0.2.1 and newer): one rollout per trained agent.

Fields as verifiers 0.4.0 writes them (`verifiers/v1/trace.py`, `episode.py`). The reward as a whole is not among them:
it is the sum of score times weight. Success is the stamp `ok`: `errors` keeps those of earlier attempts too, oldest
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.results.rollout import MadeBy, Rollout
from prime_lab_mcp.lab.evals.results.values import NOT_SCORED, mapping, name, number, numbers, text_of, whole

CUT = frozenset({"max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"})
"""Stop conditions of `Trace.is_truncated`, less `max_turns`: running out of turns is how a game is lost, and no token
limit would change it."""
NO_REWARD = "the environment gave it no reward"


def rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    traces = [t for t in record.get("traces", [record]) if isinstance(t, dict)]
    trained = [t for t in traces if mapping(t.get("agent")).get("trainable", True)] or traces
    if not trained:
        yield _nothing(record)
    for trace in trained:
        yield _trace(trace, record, several=len(trained) > 1)


def _nothing(episode: Mapping[str, Any]) -> Rollout:
    return Rollout(
        _key(mapping(episode.get("task"))),
        None,
        error=told(episode.get("errors")) or "no trace was recorded",
        id=str(episode.get("id") or ""),
        record=episode,
        made_by=MadeBy(name(mapping(episode.get("env")).get("id"))),
    )


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], *, several: bool) -> Rollout:
    rewards = mapping(trace.get("rewards"))
    error = _failure(trace, episode)
    # A score of NaN is written as null; a reward whose hook raised is null as a whole.
    nonfinite = any(isinstance(r, dict) and number(r.get("score")) is None for r in rewards.values())
    if error is None and not nonfinite:
        error = unscored(rewards)
    components = {
        n: (score, number(r.get("weight", 1.0)) or 0.0)
        for n, r in rewards.items()
        if isinstance(r, dict) and (score := number(r.get("score"))) is not None
    }
    key = _key(mapping(trace.get("task")) or mapping(episode.get("task")))
    agent = mapping(trace.get("agent"))
    called = name(agent.get("name"))
    scored = error is None and not nonfinite
    prompt, completion = _tokens(trace)
    stop = name(trace.get("stop_condition")) or None
    return Rollout(
        task=f"{key}/{called}" if several and called else key,
        reward=math.fsum(s * w for s, w in components.values()) if scored else None,
        components=components,
        metrics=numbers(trace.get("metrics")),
        error=error,
        truncated=stop in CUT or _finish(trace) == "length",
        prompt_tokens=prompt,
        completion_tokens=completion,
        seconds=_span(trace.get("timing")),
        completion_text="\n".join(text for m in _replies(trace) if (text := text_of(m.get("content")))),
        stop=stop,
        nonfinite=nonfinite and error is None,
        id=str(trace.get("id") or episode.get("id") or ""),
        record=trace,
        made_by=MadeBy(
            name(mapping(episode.get("env")).get("id")),
            called,
            name(mapping(agent.get("config")).get("model")),
            name(mapping(trace.get("verifiers")).get("version")),
        ),
    )


def _failure(trace: Mapping[str, Any], episode: Mapping[str, Any]) -> str | None:
    for record in (trace, episode):
        ok, errors = record.get("ok"), record.get("errors")
        if ok is True or (ok is None and not errors):
            continue
        failed = told(errors) or (ended(record.get("stop_condition")) if record is trace else None)
        if failed:
            return failed
    return None


def unscored(rewards: Mapping[str, Any]) -> str | None:
    """Why a rollout that went well has no whole reward, if so."""
    if not rewards:
        return NO_REWARD
    return None if all(isinstance(r, dict) for r in rewards.values()) else NOT_SCORED


def ended(stop: Any) -> str:
    return f"it ended with {stop}" if isinstance(stop, str) else NOT_SCORED


def told(errors: Any) -> str | None:
    """The error that ended it: the last one."""
    if not isinstance(errors, list) or not errors:
        return None
    last = errors[-1]
    if not isinstance(last, dict):
        return str(last) or "error"
    status = f" {last['status_code']}" if last.get("status_code") else ""
    return f"{last.get('type', 'error')}{status}: {last.get('message', '')}"


def _calls(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = trace.get("calls")
    return [c for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []


def _finish(trace: Mapping[str, Any]) -> Any:
    """Why the model stopped in the last call that went well."""
    return next((c.get("finish_reason") for c in reversed(_calls(trace)) if c.get("error") is None), None)


def _tokens(trace: Mapping[str, Any]) -> tuple[int, int]:
    """Prompt tokens, each counted once, and completion tokens.

    The calls come first for the completion: the trace's own number repeats a call for every branch it is part of.
    """
    used = [u for c in _calls(trace) if isinstance(u := c.get("usage"), dict)]
    fresh = before = 0
    for usage in used:
        asked = whole(usage.get("prompt_tokens"))
        fresh += max(0, asked - before)
        before = asked + whole(usage.get("completion_tokens"))
    said = sum(whole(u.get("completion_tokens")) for u in used)
    return whole(trace.get("num_input_tokens")) or fresh, said or whole(trace.get("num_output_tokens"))


def _replies(trace: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    nodes = trace.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and node.get("sampled") and isinstance(node.get("message"), dict):
            yield node["message"]


def _key(task: Mapping[str, Any]) -> str:
    index = mapping(task.get("data")).get("idx")
    found = task.get("key") or (index if index is not None else None)
    return str(found if found is not None else task.get("hash") or "?")


def _span(timing: Any) -> float:
    """Seconds from the start of a trace to the end of its last stage."""
    if not isinstance(timing, dict):
        return 0.0
    ends = [e for s in timing.values() if isinstance(s, dict) and (e := number(s.get("end"))) is not None]
    start = number(timing.get("start"))
    return max(0.0, max(ends) - start) if ends and start is not None else 0.0
