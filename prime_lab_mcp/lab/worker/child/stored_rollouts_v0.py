"""Scores v0 rollouts that an earlier evaluation stored, with the environment's current rubric.

Each state is made from the environment's current row and the stored completion. results.jsonl does not store other keys
of a state. A case whose reward reads such a key gets the problem `unstored`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import coercion, messages_v0
from .adapter import TaskIndex, digest
from .messages_v0 import VERIFIERS_STATE_KEYS
from .observer import Observation
from .protocol import RescoreRequest, ScoreReply, StoredCase

if TYPE_CHECKING:
    from .adapter_v0 import AdapterV0


class TaskIndexV0(TaskIndex):
    """The environment's evaluation rows by prompt, or its training rows if it has no evaluation rows."""

    def __init__(self, adapter: AdapterV0) -> None:
        first = len(adapter.train) if adapter.train is not None else 0
        table, start = (adapter.eval, first) if adapter.eval is not None else (adapter.train, 0)
        self.rows_by_prompt: dict[str, list[int]] = {}
        self.prompt_digests: list[str] = []
        self.rows: dict[int, dict[str, Any]] = {}
        for offset in range(len(table) if table is not None else 0):
            raw = dict(table[offset])
            asked = digest([_message_content(m) for m in messages_v0.messages(raw.get("prompt"))])
            self.prompt_digests.append(asked)
            self.rows_by_prompt.setdefault(asked, []).append(start + offset)
            self.rows[start + offset] = self._gold(raw)

    def _gold(self, raw: dict[str, Any]) -> dict[str, Any]:
        return {
            "example_id": raw.get("example_id"),
            "answer": coercion.to_json(raw.get("answer") or ""),
            "info": coercion.to_json(messages_v0.parsed_info(raw.get("info")) or {}),
        }

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        rows = self.rows_by_prompt.get(
            digest([_message_content(m) for m in messages_v0.messages(stored.get("prompt"))]), []
        )
        if not rows:
            return None, "prompt"
        stored_gold = self._gold(stored)
        same_gold = [r for r in rows if self._same(self.rows[r], stored_gold)]
        same_id = [r for r in rows if self.rows[r]["example_id"] == stored_gold["example_id"]]
        if same_gold:
            return next((r for r in same_gold if r in same_id), same_gold[0]), ""
        if whole:
            return None, "data"
        if len(rows) > 1:
            rows = same_id
        return (rows[0], "") if len(rows) == 1 else (None, "ambiguous")

    def _same(self, left: dict[str, Any], right: dict[str, Any]) -> bool:
        return all(_without_empty_fields(left[k]) == _without_empty_fields(right[k]) for k in ("answer", "info"))

    def record(self, row: int) -> dict[str, Any]:
        return {k: v for k, v in self.rows[row].items() if k != "example_id"}

    def fingerprints(self) -> Iterator[str]:
        return iter(self.prompt_digests)


def _without_empty_fields(value: Any) -> Any:
    """Return the value without fields that are None at any depth. Arrow tables add such fields."""
    return (
        {k: _without_empty_fields(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value
    )


def _message_content(message: Any) -> Any:
    fields = message if isinstance(message, dict) else message.model_dump(mode="json")
    content = fields.get("content")
    return [
        fields.get("role"),
        content if content is not None else "",
        [_call(c) for c in fields.get("tool_calls") or ()],
    ]


def _call(call: Any) -> Any:
    """Return a stored tool call with `id`, `name` and `arguments`. verifiers 0.1 stores tool calls as JSON text."""
    whole = json.loads(call) if isinstance(call, str) else call
    inner = whole.get("function") if isinstance(whole, dict) else None
    if isinstance(inner, dict):
        return {"id": whole.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}
    return whole


def score(adapter: AdapterV0, case: StoredCase, request: RescoreRequest) -> ScoreReply:
    """Score the stored rollout of a case, or all rollouts of its group if a reward compares them.

    `members` of the reply are the results of the group's rollouts.
    """
    observation = adapter.observe()
    states: list[Any] = []
    ms = adapter.run_scoring(
        observation, case["id"], request["case_timeout"], lambda: _score(adapter, case, states, request)
    )
    if not adapter.grouped:
        return adapter.scoring_result(states[0] if states else None, ms)
    members = []
    for state in states:
        metrics = state.get("metrics") or {}
        adapter.scores = [(name, weight, metrics.get(name)) for name, weight in adapter.weights]
        members.append(adapter.scoring_result(state, ms))
    return {**observation.as_reply(ms=ms), "members": members}


async def _score(adapter: AdapterV0, case: StoredCase, states: list[Any], request: RescoreRequest) -> None:
    raw = adapter.raw_row(case["row"]) or {}
    records = case["record"]["group"] if adapter.grouped else [case["record"]]
    for record in records:
        states.append(await _state(adapter, raw, record, request))
    if adapter.grouped:
        await adapter.env.rubric.score_group(states)
    else:
        await adapter.env.rubric.score_rollout(states[0])


async def _state(adapter: AdapterV0, raw: dict[str, Any], record: dict[str, Any], request: RescoreRequest) -> Any:
    completion = []
    for message in messages_v0.messages(record.get("completion")):
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        completion.append({**message, "tool_calls": [_call(c) for c in calls]} if calls else message)
    state = await adapter.make_state(raw, completion)
    state.update(is_truncated=bool(record.get("is_truncated")), stop_condition=record.get("stop_condition"))
    if record.get("tool_defs") and "tool_defs" in state:
        state["tool_defs"] = record["tool_defs"]
    if request["turns"]:
        with contextlib.suppress(TypeError):  # Python forbids the assignment for some classes of states.
            state.__class__ = _recording_type(type(state), adapter.observation, set(raw))
    return state


def _recording_type(kind: Any, observation: Observation, row: set[str]) -> Any:
    """Return a subclass of the state that notes each key of the environment that is read before scoring writes it."""
    usual = VERIFIERS_STATE_KEYS | row
    written: set[str] = set()

    def note(key: Any) -> None:
        if isinstance(key, str) and key not in usual and key not in written:
            observation.add_problem("unstored", f"state[{key!r}]"[:120])

    class RecordingState(kind):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            note(key)
            return super().__getitem__(key)

        def get(self, key: Any, default: Any = None) -> Any:
            note(key)
            return super().get(key, default)

        def __contains__(self, key: Any) -> bool:
            note(key)
            return bool(super().__contains__(key))

        def __setitem__(self, key: Any, value: Any) -> None:
            written.add(key)
            super().__setitem__(key, value)

    return RecordingState
