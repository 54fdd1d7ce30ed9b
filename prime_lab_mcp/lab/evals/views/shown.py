"""Rollouts as they are shown: a row of an excerpt, or the whole conversation with its tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from prime_lab_mcp.lab.evals.conversation import Message, conversation, gold
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.text import quote, rounded

EXCERPT = 500
WHOLE = 14_000
"""Characters of all conversations in one result, as JSON; a whole result has 20,000 (DESIGN section 3)."""
_LEAST = 60
_CALLS = 40


def row(rollout: Rollout, why: Sequence[str], excerpt: int = EXCERPT) -> dict[str, Any]:
    """One rollout with both ends of its reply: the answer mostly stands at the end."""
    found = _head(rollout, why) | {"completion": ends(rollout.completion_text, excerpt)}
    if rollout.error is not None:
        found["error"] = quote(rollout.error)
    return found


def whole(rollouts: Sequence[tuple[Rollout, Sequence[str]]]) -> list[dict[str, Any]]:
    """Rollouts with every message; long texts are cut evenly until all fit."""
    limit = WHOLE
    while True:
        rows = [_played(rollout, why, limit) for rollout, why in rollouts]
        size = len(json.dumps(rows, ensure_ascii=False))
        if size <= WHOLE or limit <= _LEAST:
            return rows
        limit = max(_LEAST, min(limit * 3 // 4, limit * WHOLE // size + 1))


def ends(text: str, limit: int) -> str:
    """Foreign text quoted, what is too long cut out of its middle."""
    if len(text) <= limit:
        return quote(text, limit)
    left_out = len(text) - limit // 2 * 2
    return quote(f"{text[: limit // 2]} …({left_out} characters)… {text[-(limit // 2) :]}", limit + 60)


def _head(rollout: Rollout, why: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": rollout.id,
        "task": rollout.task[:16],
        "reward": rounded(rollout.reward),
        "components": {name[:60]: rounded(score) for name, (score, _) in list(rollout.components.items())[:12]},
        "completion_tokens": rollout.completion_tokens,
    }
    if why:
        found["why"] = list(why)
    if rollout.truncated:
        found["truncated"] = True
    right = gold(rollout)
    if right is not None:
        found["gold"] = quote(right, 120)
    return found


def _played(rollout: Rollout, why: Sequence[str], limit: int) -> dict[str, Any]:
    found = _head(rollout, why)
    found["metrics"] = {name[:60]: rounded(value) for name, value in list(rollout.metrics.items())[:20]}
    found["stop"] = quote(rollout.stop or "", 60)
    if rollout.error is not None:
        found["error"] = ends(rollout.error, limit)
    messages = conversation(rollout)
    found["messages"] = [_message(m, limit) for m in _kept(messages, limit)]
    if len(found["messages"]) < len(messages):
        found["messages_left_out"] = len(messages) - len(found["messages"])
    return found


def _kept(messages: Sequence[Message], limit: int) -> Sequence[Message]:
    """All messages, or the first and last of a conversation that is too long even when every text is cut."""
    if limit > _LEAST or len(messages) <= _CALLS:
        return messages
    return [*messages[: _CALLS // 2], *messages[-(_CALLS // 2) :]]


def _message(message: Message, limit: int) -> dict[str, Any]:
    found: dict[str, Any] = {"role": quote(message.role, 20).strip('"')}
    if message.reasoning:
        found["reasoning"] = ends(message.reasoning, limit)
    if message.text or not message.calls:
        found["text"] = ends(message.text, limit)
    if message.calls:
        calls = message.calls[:_CALLS]
        found["calls"] = [{"name": quote(c.name, 80), "arguments": ends(c.arguments, limit)} for c in calls]
    return found
