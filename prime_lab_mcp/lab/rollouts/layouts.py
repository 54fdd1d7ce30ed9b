"""Parses one record into rollouts, for each layout: v1 episodes, v0 rows, and samples that the platform prints.

v1 is `traces.jsonl` of verifiers 0.2.1 and newer, with one rollout for each trained agent of an episode. v0 is
`results.jsonl` with `metadata.json` beside it, as verifiers 0.1.14 to 0.3.1 write them. Platform records come from
`prime train rollouts` and `prime eval samples` (prime 0.18, prime-evals 0.2.4). A field may hold a value of any type:
every parser takes the values of the expected type and ignores the rest.

The v1 fields are those of verifiers 0.4.0 (`verifiers/v1/trace.py`, `episode.py`). A trace does not store its total
reward, which is the sum of score times weight. Success is read from `ok`, because `errors` also lists the errors of
earlier attempts, oldest first.

The platform stores samples as they were uploaded, so platform records mix v0 fields with the platform's own fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.rollouts.rollout import Rollout, RolloutOrigin

NOT_SCORED = "it was not scored"


def assistant_text(completion: Any) -> str:
    """Return the text of a completion: the assistant's messages, or the completion itself if it is a string.

    Without assistant messages the text of all messages is returned.
    """
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, list):
        return ""
    messages = [m for m in completion if isinstance(m, dict)]
    replies = [m for m in messages if m.get("role") == "assistant"] or messages
    return "\n".join(text for m in replies if (text := text_of(m.get("content"))))


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or a list of content parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, dict))
    return ""


def number(value: Any) -> float | None:
    """Return a finite number as a float, or None for any other value. `True` gives 1.0."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole_number(value: Any) -> int:
    """Return a number as an integer, or 0 for a value that is not a finite number."""
    finite = number(value)
    return int(finite) if finite is not None else 0


def numbers(items: Any) -> dict[str, float]:
    """Return the entries of a mapping whose values are finite numbers."""
    if not isinstance(items, dict):
        return {}
    return {str(k): n for k, v in items.items() if (n := number(v)) is not None}


def is_number(value: Any) -> bool:
    """Whether a value is a number, including NaN and infinity."""
    return isinstance(value, int | float)


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """Return the value if the value is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def name_or_empty(value: Any) -> str:
    """Return a name or version as text, or an empty text for any other type."""
    return value if isinstance(value, str) else ""


V1_TRUNCATED = frozenset({"max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"})
"""Stop conditions for which `Trace.is_truncated` is true, except `max_turns`: a higher token limit would not help a
rollout that runs out of turns."""
NO_REWARD = "the environment gave it no reward"


def v1_rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    """Yield one rollout for each trained agent of a v1 episode, or one failed rollout for an episode without traces."""
    traces = [t for t in record.get("traces", [record]) if isinstance(t, dict)]
    trained = [t for t in traces if mapping_or_empty(t.get("agent")).get("trainable", True)] or traces
    if not trained:
        yield _episode_without_trace(record)
    for trace in trained:
        rollout = _trace(trace, record, several=len(trained) > 1)
        rollout.traces = len(traces)
        yield rollout


def _episode_without_trace(episode: Mapping[str, Any]) -> Rollout:
    """Return a failed rollout for an episode without traces."""
    return Rollout(
        _key(mapping_or_empty(episode.get("task"))),
        None,
        error=v1_error(episode.get("errors")) or "no trace was recorded",
        id=str(episode.get("id") or ""),
        record=episode,
        origin=RolloutOrigin(name_or_empty(mapping_or_empty(episode.get("env")).get("id"))),
    )


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], *, several: bool) -> Rollout:
    """Return the rollout of one trace. If `several` agents are trained, the agent's name is part of the task's key."""
    rewards = mapping_or_empty(trace.get("rewards"))
    error = _failure(trace, episode)
    # A score of NaN is written as null; a reward whose hook raised is null as a whole.
    nonfinite = any(isinstance(r, dict) and number(r.get("score")) is None for r in rewards.values())
    if error is None and not nonfinite:
        error = v1_unscored_reason(rewards)
    components = {
        n: (score, number(r.get("weight", 1.0)) or 0.0)
        for n, r in rewards.items()
        if isinstance(r, dict) and (score := number(r.get("score"))) is not None
    }
    key = _key(mapping_or_empty(trace.get("task")) or mapping_or_empty(episode.get("task")))
    agent = mapping_or_empty(trace.get("agent"))
    agent_name = name_or_empty(agent.get("name"))
    scored = error is None and not nonfinite
    prompt, completion, replies = _tokens(trace)
    stop = name_or_empty(trace.get("stop_condition")) or None
    return Rollout(
        task=f"{key}/{agent_name}" if several and agent_name else key,
        reward=math.fsum(s * w for s, w in components.values()) if scored else None,
        components=components,
        metrics=numbers(trace.get("metrics")),
        error=error,
        truncated=stop in V1_TRUNCATED or _finish(trace) == "length",
        prompt_tokens=prompt,
        completion_tokens=completion,
        seconds=_span(trace.get("timing")),
        completion_text="\n".join(text for m in _replies(trace) if (text := text_of(m.get("content")))),
        stop=stop,
        nonfinite=nonfinite and error is None,
        id=str(trace.get("id") or episode.get("id") or ""),
        record=trace,
        origin=RolloutOrigin(
            name_or_empty(mapping_or_empty(episode.get("env")).get("id")),
            agent_name,
            name_or_empty(mapping_or_empty(agent.get("config")).get("model")),
            name_or_empty(mapping_or_empty(trace.get("verifiers")).get("version")),
        ),
        called_tool=any(m.get("tool_calls") for m in _replies(trace)) if trace.get("tools") else None,
        replies=replies,
    )


def _failure(trace: Mapping[str, Any], episode: Mapping[str, Any]) -> str | None:
    """Return the error that ended a trace or its episode; None for a successful trace."""
    for record in (trace, episode):
        ok, errors = record.get("ok"), record.get("errors")
        if ok is True or (ok is None and not errors):
            continue
        failed = v1_error(errors) or (v1_stop_condition(record.get("stop_condition")) if record is trace else None)
        if failed:
            return failed
    return None


def v1_unscored_reason(rewards: Mapping[str, Any]) -> str | None:
    """Return the reason why a rollout without errors has no complete reward; None if the reward is complete."""
    if not rewards:
        return NO_REWARD
    return None if all(isinstance(r, dict) for r in rewards.values()) else NOT_SCORED


def v1_stop_condition(stop: Any) -> str:
    """Describe a rollout that failed without an error by its stop condition."""
    return f"it ended with {stop}" if isinstance(stop, str) else NOT_SCORED


def v1_error(errors: Any) -> str | None:
    """Return the last error of a list, which ended the rollout, as text; None if there is no error."""
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
    """Return the `finish_reason` of the last model call without an error."""
    return next((c.get("finish_reason") for c in reversed(_calls(trace)) if c.get("error") is None), None)


def _tokens(trace: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the numbers of prompt tokens, of completion tokens, and of replies.

    A prompt token that several calls repeat counts once. Completion tokens are the sum over the calls if the calls
    state them: the trace's own number counts a call once for each branch that contains the call.
    """
    used = [u for c in _calls(trace) if isinstance(u := c.get("usage"), dict)]
    fresh = before = 0
    for usage in used:
        prompt = whole_number(usage.get("prompt_tokens"))
        fresh += max(0, prompt - before)
        before = prompt + whole_number(usage.get("completion_tokens"))
    completion = sum(whole_number(u.get("completion_tokens")) for u in used)
    return (
        whole_number(trace.get("num_input_tokens")) or fresh,
        completion or whole_number(trace.get("num_output_tokens")),
        max(1, len(used)),
    )


def _replies(trace: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages that the model wrote."""
    nodes = trace.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and node.get("sampled") and isinstance(node.get("message"), dict):
            yield node["message"]


def _key(task: Mapping[str, Any]) -> str:
    """Return the key of a v1 task, else its index, else its hash, else `?`."""
    index = mapping_or_empty(task.get("data")).get("idx")
    key = task.get("key") or (index if index is not None else None)
    return str(key if key is not None else task.get("hash") or "?")


def _span(timing: Any) -> float:
    """Return the seconds from the start of a trace to the end of its last stage."""
    if not isinstance(timing, dict):
        return 0.0
    ends = [e for s in timing.values() if isinstance(s, dict) and (e := number(s.get("end"))) is not None]
    start = number(timing.get("start"))
    return max(0.0, max(ends) - start) if ends and start is not None else 0.0


V0_COUNTERS = frozenset({"num_turns", "total_tool_calls"})
"""Metrics that v0 itself adds to the scores of the reward functions."""
V0_TRUNCATED = frozenset({"prompt_too_long", "max_total_completion_tokens_reached"})
"""Stop conditions of `MultiTurnEnv` that mean a truncated rollout. `max_turns_reached` does not: every single-turn
rollout stops with this condition."""


def v0_rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    """Yield the rollout of a v0 row."""
    reward = record.get("reward")
    error = v0_error(record.get("error")) or (None if is_number(reward) else NOT_SCORED)
    usage = mapping_or_empty(record.get("token_usage"))
    metrics = numbers(record.get("metrics"))
    timing = mapping_or_empty(record.get("timing"))
    stop = name_or_empty(record.get("stop_condition")) or None
    finite_reward = number(reward)
    yield Rollout(
        task=str(record.get("example_id")),
        reward=None if error else finite_reward,
        components=v0_components(metrics),
        metrics=metrics,
        error=error,
        truncated=bool(record.get("is_truncated")) or stop in V0_TRUNCATED,
        prompt_tokens=whole_number(usage.get("input_tokens")) or whole_number(usage.get("final_input_tokens")),
        completion_tokens=whole_number(usage.get("output_tokens")) or whole_number(usage.get("final_output_tokens")),
        seconds=number(timing.get("total")) or 0.0,
        completion_text=assistant_text(record.get("completion")),
        stop=stop,
        nonfinite=error is None and finite_reward is None,
        id=v0_rollout_id(record.get("example_id"), number(timing.get("start_time"))),
        record=record,
        called_tool=v0_called_tool(metrics),
        replies=v0_replies(metrics),
    )


def v0_error(error: Any) -> str | None:
    """Return the error of a v0 row or platform sample as text."""
    if not error:
        return None
    if not isinstance(error, dict):
        return text_of(error) or str(error)
    return str(error.get("error_chain_str") or error.get("error") or "error")


def v0_components(metrics: Mapping[str, float]) -> dict[str, tuple[float, float | None]]:
    """Return the scores of the reward functions, with None for the weights, which v0 does not store."""
    return {k: (v, None) for k, v in metrics.items() if k not in V0_COUNTERS}


def v0_called_tool(metrics: Mapping[str, float]) -> bool | None:
    """Whether the model called a tool, by the counter that environments with tools record; None without a counter."""
    calls = metrics.get("total_tool_calls")
    return None if calls is None else calls > 0


def v0_replies(metrics: Mapping[str, float]) -> int:
    """Return the number of replies, by the counter of environments with several turns; 1 without a counter."""
    return max(1, whole_number(metrics.get("num_turns")))


def v0_rollout_id(example: Any, started: float | None) -> str:
    """Return an id for a v0 rollout, made of its task and its start time, because v0 stores no id.

    The start time has microseconds, so that two rollouts of a task get different ids. Empty without a start time.
    """
    return f"{example}@{started!r}" if started else ""


PLATFORM_TASK_KEYS = ("example_id", "task_key", "problem_id", "task_id", "exampleId", "taskId", "problemId")
PLATFORM_REWARD_KEYS = ("reward", "score")
_ENVIRONMENT = ("env_name", "envName", "environment", "env_id")
_MODEL = ("model", "model_name", "modelName")
_PROMPT = ("prompt_tokens", "num_input_tokens", "input_tokens", "promptTokens", "numInputTokens")
_COMPLETION = ("completion_tokens", "num_output_tokens", "output_tokens", "completionTokens", "numOutputTokens")
_CUT = V0_TRUNCATED | V1_TRUNCATED


def platform_rollouts(record: Mapping[str, Any]) -> Iterator[Rollout]:
    """Yield the rollout of a platform sample."""
    task = _task(record)
    reward = _first(record, PLATFORM_REWARD_KEYS)
    error = v0_error(record.get("error")) or (None if is_number(reward) else NOT_SCORED)
    info = mapping_or_empty(record.get("info"))
    metrics = numbers(record.get("metrics") or info.get("metrics"))
    finite_reward = number(reward)
    stop = name_or_empty(_first(record, ("stop_condition", "stopCondition"))) or None
    yield Rollout(
        task=task,
        reward=None if error else finite_reward,
        components=v0_components(metrics),
        metrics=metrics,
        error=error,
        truncated=_truncated(record, stop),
        prompt_tokens=_platform_tokens(record, _PROMPT),
        completion_tokens=_platform_tokens(record, _COMPLETION),
        seconds=number(mapping_or_empty(record.get("timing")).get("total")) or 0.0,
        completion_text=assistant_text(record.get("completion") or record.get("output")),
        stop=stop,
        nonfinite=error is None and finite_reward is None,
        id=_identity(record, task),
        record=record,
        origin=RolloutOrigin(name_or_empty(_first(record, _ENVIRONMENT)), "", name_or_empty(_first(record, _MODEL))),
        replies=v0_replies(metrics),
    )


def _task(record: Mapping[str, Any]) -> str:
    """Return the key of a platform sample's task, or the text of its prompt if the sample has no key."""
    key = _first(record, PLATFORM_TASK_KEYS)
    if key is None:
        prompt = record.get("prompt") or record.get("input")
        key = assistant_text(prompt) if isinstance(prompt, list) else prompt
    return str(key)


def _identity(record: Mapping[str, Any], task: str) -> str:
    """Return the id of a platform sample if it identifies this one rollout, else an empty string.

    Only a text in `id` does: `sample_id` and numeric ids may identify the problem, so that all its rollouts share them.
    """
    id = record.get("id")
    return id if isinstance(id, str) and id != task else ""


def _truncated(record: Mapping[str, Any], stop: str | None) -> bool:
    flag = _first(record, ("is_truncated", "isTruncated", "truncated"))
    finish = _first(record, ("finish_reason", "finishReason"))
    return bool(flag) or finish == "length" or stop in _CUT


def _platform_tokens(record: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for place in (record, mapping_or_empty(record.get("token_usage")), mapping_or_empty(record.get("usage"))):
        tokens = whole_number(_first(place, names))
        if tokens:
            return tokens
    return 0


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first of these fields that the record has."""
    return next((record[n] for n in names if record.get(n) is not None), None)
