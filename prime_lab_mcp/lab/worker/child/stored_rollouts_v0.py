"""Scores v0 rollouts that an earlier evaluation stored, with the present rubric.

The state is made from the present row, with the stored conversation as its completion. results.jsonl holds no other
state of a rollout; a reward that reads such a key gets the problem `unstored`.
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
    """The present rows by prompt: the evaluation rows, or the training rows if there are none."""

    def __init__(self, adapter: AdapterV0) -> None:
        first = len(adapter.train) if adapter.train is not None else 0
        table, start = (adapter.eval, first) if adapter.eval is not None else (adapter.train, 0)
        self.asked: dict[str, list[int]] = {}
        self.order: list[str] = []
        self.rows: dict[int, dict[str, Any]] = {}
        for offset in range(len(table) if table is not None else 0):
            raw = dict(table[offset])
            asked = digest([_message_content(m) for m in messages_v0.messages(raw.get("prompt"))])
            self.order.append(asked)
            self.asked.setdefault(asked, []).append(start + offset)
            self.rows[start + offset] = self._gold(raw)

    def _gold(self, raw: dict[str, Any]) -> dict[str, Any]:
        return {
            "example_id": raw.get("example_id"),
            "answer": coercion.to_json(raw.get("answer") or ""),
            "info": coercion.to_json(messages_v0.parsed_info(raw.get("info")) or {}),
        }

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        rows = self.asked.get(digest([_message_content(m) for m in messages_v0.messages(stored.get("prompt"))]), [])
        if not rows:
            return None, "prompt"
        mine = self._gold(stored)
        same = [r for r in rows if self._same(self.rows[r], mine)]
        here = [r for r in rows if self.rows[r]["example_id"] == mine["example_id"]]
        if same:
            return next((r for r in same if r in here), same[0]), ""
        if whole:
            return None, "data"
        if len(rows) > 1:
            rows = here
        return (rows[0], "") if len(rows) == 1 else (None, "ambiguous")

    def _same(self, left: dict[str, Any], right: dict[str, Any]) -> bool:
        return all(_full(left[k]) == _full(right[k]) for k in ("answer", "info"))

    def record(self, row: int) -> dict[str, Any]:
        return {k: v for k, v in self.rows[row].items() if k != "example_id"}

    def fingerprints(self) -> Iterator[str]:
        return iter(self.order)


def _full(value: Any) -> Any:
    """The value without the empty fields that Arrow adds."""
    return {k: _full(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _message_content(message: Any) -> Any:
    fields = message if isinstance(message, dict) else message.model_dump(mode="json")
    content = fields.get("content")
    return [
        fields.get("role"),
        content if content is not None else "",
        [_call(c) for c in fields.get("tool_calls") or ()],
    ]


def _call(call: Any) -> Any:
    """A stored tool call in the form of verifiers. Version 0.1 stores each as a string of JSON."""
    whole = json.loads(call) if isinstance(call, str) else call
    inner = whole.get("function") if isinstance(whole, dict) else None
    if isinstance(inner, dict):
        return {"id": whole.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}
    return whole


def score(adapter: AdapterV0, case: StoredCase, request: RescoreRequest) -> ScoreReply:
    """Score the stored rollouts of a case, together if a reward compares them; `members` are their results."""
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
        with contextlib.suppress(TypeError):  # a state that is no plain class of its own
            state.__class__ = _recording_type(type(state), adapter.observation, set(raw))
    return state


def _recording_type(kind: Any, observation: Observation, row: set[str]) -> Any:
    """A subclass of the state that notes every key of the environment that is read before scoring writes that key."""
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
