"""Decodes from each line of a results file only the fields that judging a reward distribution needs.

The rollouts have no conversation, record or duration. Typed decoding (msgspec) skips all other fields and checks the
types of the decoded ones. If a field has an unexpected type, such as the NaN that v0 writes, the decoder returns None,
and the tolerant parser in `layouts` reads the line. A property test checks that both give the same rollouts.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import msgspec

from prime_lab_mcp.lab.rollouts import layouts
from prime_lab_mcp.lab.rollouts.layouts import NOT_SCORED
from prime_lab_mcp.lab.rollouts.rollout import UNKNOWN_ORIGIN, Rollout, RolloutOrigin


class _Task(msgspec.Struct, gc=False):
    """The decoded fields of a v1 task. The following classes have the decoded fields of v1 episodes and v0 rows."""

    key: str


class _Reward(msgspec.Struct, gc=False):
    score: float | None = None
    weight: float | None = 1.0


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None


class _Call(msgspec.Struct, gc=False):
    finish_reason: str | None = None
    usage: _Usage | None = None
    error: Any = None


class _Config(msgspec.Struct, gc=False):
    model: str | None = None


class _Agent(msgspec.Struct, gc=False):
    name: str | None = None
    trainable: bool = True
    config: _Config | None = None


class _Version(msgspec.Struct, gc=False):
    version: str | None = None


class _Trace(msgspec.Struct, gc=False):
    task: _Task
    tools: list[msgspec.Raw] | None = None
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    id: str | None = None
    agent: _Agent | None = None
    calls: list[_Call] | None = None
    rewards: dict[str, _Reward | None] | None = None
    metrics: dict[str, float | None] | None = None
    errors: list[Any] | None = None
    ok: bool | None = None
    stop_condition: str | None = None
    verifiers: _Version | None = None
    num_input_tokens: float | None = None
    num_output_tokens: float | None = None


class _Environment(msgspec.Struct, gc=False):
    id: str | None = None


class _Episode(msgspec.Struct, gc=False):
    traces: list[_Trace]
    id: str | None = None
    env: _Environment | None = None
    errors: list[Any] | None = None
    ok: bool | None = None


_EPISODE = msgspec.json.Decoder(_Episode).decode


def v1_scores(line: bytes) -> list[Rollout] | None:
    """Return the rollouts of a v1 episode, or None if the tolerant parser has to read the line."""
    try:
        episode = _EPISODE(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    traces = episode.traces
    played = len(traces)
    if played == 1:
        only = _trace_rollout(traces[0], episode, several=False)
        return [only] if only is not None else None
    traces = [t for t in traces if t.agent is None or t.agent.trainable] or traces
    if not traces:
        return None
    several = len(traces) > 1
    rollouts = []
    for trace in traces:
        rollout = _trace_rollout(trace, episode, several)
        if rollout is None:
            return None
        rollout.traces = played
        rollouts.append(rollout)
    return rollouts


def _trace_rollout(trace: _Trace, episode: _Episode, several: bool) -> Rollout | None:
    """Return the rollout of one trace, or None if the tolerant parser has to read the line.

    If `several` agents are trained, the agent's name is part of the task's key.
    """
    error = None if trace.ok is True and episode.ok is True else _failure(trace, episode)
    rewards = trace.rewards or {}
    components: dict[str, tuple[float, float | None]] = {}
    terms = []
    nonfinite = False
    for name, reward in rewards.items():
        if reward is None:
            continue
        score, weight = reward.score, reward.weight or 0.0
        if score is None:
            nonfinite = True
        else:
            components[name] = (score, weight)
            terms.append(score * weight)
    if error is None and not nonfinite and len(components) != (len(rewards) or 1):
        error = NOT_SCORED if rewards else layouts.NO_REWARD
    key = trace.task.key
    if not key:
        return None
    agent = trace.agent
    agent_name = (agent.name if agent is not None else None) or ""
    prompt, completion, replies, finish = _calls(trace)
    scored = error is None and not nonfinite
    return Rollout(
        f"{key}/{agent_name}" if several and agent_name else key,
        (terms[0] if len(terms) == 1 else math.fsum(terms)) if scored else None,
        components,
        _present(trace.metrics),
        error,
        finish == "length" or trace.stop_condition in layouts.V1_TRUNCATED,
        int(trace.num_input_tokens or 0) or prompt,
        completion or int(trace.num_output_tokens or 0),
        0.0,
        "",
        trace.stop_condition or None,
        nonfinite and error is None,
        trace.id or episode.id or "",
        {},
        _origin(
            (episode.env.id if episode.env is not None else None) or "",
            agent_name,
            (agent.config.model if agent is not None and agent.config is not None else None) or "",
            (trace.verifiers.version if trace.verifiers is not None else None) or "",
        ),
        _called_tool(trace),
        replies,
        1,
    )


def _present(metrics: dict[str, float | None] | None) -> dict[str, float]:
    """Return the metrics that have a number: the same dictionary if all have one."""
    if not metrics:
        return {}
    if None in metrics.values():
        return {k: v for k, v in metrics.items() if v is not None}
    return cast(dict[str, float], metrics)


_HAS_TOOL_CALL = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')
"""Matches a list of tool calls that is not empty. The same characters inside a JSON string have escaped quotes."""


def _called_tool(trace: _Trace) -> bool | None:
    if not trace.tools:
        return None
    return _HAS_TOOL_CALL.search(bytes(trace.nodes)) is not None


_last = UNKNOWN_ORIGIN


def _origin(environment: str, agent: str, model: str, verifiers: str) -> RolloutOrigin:
    """Return the origin; the same object for consecutive records with equal origins, which saves time and memory."""
    global _last
    last, fields = _last, (environment, agent, model, verifiers)
    if fields != last:
        _last = last = RolloutOrigin(*fields)
    return last


def _failure(trace: _Trace, episode: _Episode) -> str | None:
    if trace.ok is not True and (trace.ok is not None or trace.errors):
        return layouts.v1_error(trace.errors) or layouts.v1_stop_condition(trace.stop_condition)
    if episode.ok is not True and (episode.ok is not None or episode.errors):
        return layouts.v1_error(episode.errors)
    return None


def _calls(trace: _Trace) -> tuple[int, int, int, str | None]:
    """Return the prompt tokens, the completion tokens, the number of replies, and the `finish_reason` of the last call
    without an error.
    """
    fresh = before = completion = replies = 0
    finish = None
    for call in trace.calls or ():
        if call.error is None:
            finish = call.finish_reason
        usage = call.usage
        if usage is not None:
            prompt, reply = int(usage.prompt_tokens or 0), int(usage.completion_tokens or 0)
            if prompt > before:
                fresh += prompt - before
            before = prompt + reply
            completion += reply
            replies += 1
    return fresh, completion, replies or 1, finish


class _Use(msgspec.Struct, gc=False):
    input_tokens: float | None = None
    output_tokens: float | None = None
    final_input_tokens: float | None = None
    final_output_tokens: float | None = None


class _Timing(msgspec.Struct, gc=False):
    start_time: float | None = None


class _Row(msgspec.Struct, gc=False):
    example_id: int | str
    timing: _Timing
    completion: msgspec.Raw
    reward: float
    error: Any = None
    metrics: dict[str, float | None] | None = None
    token_usage: _Use | None = None
    is_truncated: bool | None = None
    stop_condition: str | None = None


_ROW = msgspec.json.Decoder(_Row).decode
_NO_USE = _Use()


def v0_scores(line: bytes) -> list[Rollout] | None:
    """Return the rollout of a v0 row, or None if the tolerant parser has to read the line."""
    try:
        row = _ROW(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    error = layouts.v0_error(row.error)
    metrics = _present(row.metrics)
    usage = row.token_usage or _NO_USE
    stop = row.stop_condition or None
    return [
        Rollout(
            str(row.example_id),
            None if error else row.reward,
            layouts.v0_components(metrics),
            metrics,
            error,
            bool(row.is_truncated) or stop in layouts.V0_TRUNCATED,
            int(usage.input_tokens or 0) or int(usage.final_input_tokens or 0),
            int(usage.output_tokens or 0) or int(usage.final_output_tokens or 0),
            0.0,
            "",
            stop,
            False,
            layouts.v0_rollout_id(row.example_id, row.timing.start_time),
            {},
            UNKNOWN_ORIGIN,
            layouts.v0_called_tool(metrics),
            layouts.v0_replies(metrics),
        )
    ]
