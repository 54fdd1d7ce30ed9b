"""Solved rollouts as rows that prime-rl's SFT trainer reads: `messages`, and `tools` where some were offered.

The same shape as its own exporter (prime-rl 559b4477, scripts/export_sft.py): OpenAI chat messages, tools as JSON text
since their schemas fit no common column. A rollout that branched is no one conversation and is left out, and so is
one that was cut off or showed pictures.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.evals.conversation import Message, conversation
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.columns import Columns

PER_TASK = 2
"""Rollouts of one task: more would teach that task, not the skill."""
_MOST = 20_000
_EPSILON = 1e-6
_CHARS_PER_TOKEN = 3.0
"""Low, so that a length is judged too long and not too short, where no endpoint counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation as its line, with its length in tokens."""

    line: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Solved:
    """`played` and `tasks` count what was looked at, `left_out` why solved rollouts were not taken."""

    rows: tuple[Row, ...]
    tasks: int
    played: int
    left_out: Mapping[str, int]


def solved(
    rollouts: Callable[[], Iterator[Rollout]], weights: Mapping[str, float], held_out: frozenset[str] = frozenset()
) -> Solved:
    """Rollouts at the attainable reward, the first few of each task. Reads the results twice."""
    columns = Columns(weights)
    for rollout in rollouts():
        columns.add(rollout)
    best = columns.best
    rows: list[Row] = []
    taken: Counter[str] = Counter()
    seen: set[str] = set()
    left_out: Counter[str] = Counter()
    for rollout in rollouts():
        if rollout.error is not None or rollout.reward is None or rollout.reward < best * (1 - _EPSILON):
            continue
        reason = _refused(rollout, held_out, taken)
        row = None if reason else _row(rollout)
        if row is None or row.line in seen:
            left_out[reason or ("said before" if row else "no conversation")] += 1
        elif len(rows) < _MOST:
            taken[rollout.task] += 1
            seen.add(row.line)
            rows.append(row)
    return Solved(tuple(rows), len(taken), len(columns), dict(left_out))


def _refused(rollout: Rollout, held_out: frozenset[str], taken: Mapping[str, int]) -> str | None:
    if rollout.task in held_out:
        return "held out"
    if rollout.truncated:
        return "cut off"
    if taken.get(rollout.task, 0) >= PER_TASK:
        return f"over {PER_TASK} of its task"
    return "branched" if _branches(rollout) else "with pictures" if _pictured(rollout) else None


def _row(rollout: Rollout) -> Row | None:
    messages = conversation(rollout)
    if not any(m.role == "assistant" and (m.text or m.calls) for m in messages) or messages[0].role == "assistant":
        return None
    row: dict[str, Any] = {"messages": [_wire(m) for m in messages]}
    if tools := _tools(rollout):
        row["tools"] = json.dumps(tools, ensure_ascii=False)
    line = json.dumps(row, ensure_ascii=False)
    return Row(line, _tokens(rollout, messages, len(line)))


def _tokens(rollout: Rollout, messages: list[Message], characters: int) -> int:
    """As counted where there was one reply; a prompt that was sent again each turn would be counted again."""
    counted = rollout.prompt_tokens + rollout.completion_tokens
    if counted and sum(m.role == "assistant" for m in messages) == 1:
        return counted
    return int(characters / _CHARS_PER_TOKEN) + 1


def _wire(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        found["reasoning_content"] = message.reasoning
    if message.calls:
        found["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.calls
        ]
    if message.answers:
        found["tool_call_id"] = message.answers
    return found


def _tools(rollout: Rollout) -> list[dict[str, Any]]:
    listed = rollout.record.get("tools") or rollout.record.get("tool_defs") or []
    found = []
    for tool in listed if isinstance(listed, list) else ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and inner.get("name"):
            kept = {k: inner[k] for k in ("name", "description", "parameters") if inner.get(k) is not None}
            found.append({"type": "function", "function": kept})
    return found


def _branches(rollout: Rollout) -> bool:
    nodes = rollout.record.get("nodes")
    parents = [n.get("parent") for n in nodes if isinstance(n, Mapping)] if isinstance(nodes, list) else []
    return any(parent is not None and parent != index - 1 for index, parent in enumerate(parents))


def _pictured(rollout: Rollout) -> bool:
    record = rollout.record
    nodes = record.get("nodes")
    said = [n.get("message") for n in nodes if isinstance(n, Mapping)] if isinstance(nodes, list) else []
    for part in (record.get("prompt"), record.get("completion")):
        said += part if isinstance(part, list) else []
    contents = [m.get("content") for m in said if isinstance(m, Mapping)]
    parts = [p for c in contents if isinstance(c, list) for p in c]
    return any(isinstance(p, Mapping) and p.get("type") not in (None, "text") for p in parts)
