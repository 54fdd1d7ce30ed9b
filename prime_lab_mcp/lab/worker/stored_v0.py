"""Scores rollouts that an earlier evaluation stored, with the present rubric; the v0 adapter's part.

The state is made anew from the present row, with the stored conversation as its completion. What else a rollout left in
its state is not in results.jsonl: where a reward asks for it, that is told as a problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


def _module(adapter: Any) -> Any:
    return sys.modules[type(adapter).__module__]


def digest(value: Any) -> str:
    """A short fingerprint of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:24]


class Tasks:
    """The present rows by their prompt: those that an evaluation takes (the evaluation rows, if there are any)."""

    def __init__(self, adapter: Any) -> None:
        self.adapter, module = adapter, _module(adapter)
        first = len(adapter.train) if adapter.train is not None else 0
        table, start = (adapter.eval, first) if adapter.eval is not None else (adapter.train, 0)
        self.asked: dict[str, list[int]] = {}
        self.order: list[str] = []
        self.rows: dict[int, dict[str, Any]] = {}
        for offset in range(len(table) if table is not None else 0):
            raw = dict(table[offset])
            asked = digest([_said(m) for m in module._messages(raw.get("prompt"))])
            self.order.append(asked)
            self.asked.setdefault(asked, []).append(start + offset)
            self.rows[start + offset] = self._gold(raw)

    def _gold(self, raw: dict[str, Any]) -> dict[str, Any]:
        plain, module = self.adapter.plain, _module(self.adapter)
        return {
            "example_id": raw.get("example_id"),
            "answer": plain.plain(raw.get("answer") or ""),
            "info": plain.plain(module._parsed(raw.get("info")) or {}),
        }

    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        """The present row of a stored task; or None, and why there is none."""
        rows = self.asked.get(digest([_said(m) for m in _module(self.adapter)._messages(stored.get("prompt"))]), [])
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

    def told(self, row: int) -> dict[str, Any]:
        """What a new record of a rollout says about its task."""
        return {k: v for k, v in self.rows[row].items() if k != "example_id"}

    def all(self) -> Iterator[str]:
        """What every task asks, in order."""
        return iter(self.order)


def _full(value: Any) -> Any:
    """Without the empty fields that Arrow adds."""
    return {k: _full(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _said(message: Any) -> Any:
    fields = message if isinstance(message, dict) else message.model_dump(mode="json")
    content = fields.get("content")
    return [
        fields.get("role"),
        content if content is not None else "",
        [_call(c) for c in fields.get("tool_calls") or ()],
    ]


def _call(call: Any) -> Any:
    """A stored tool call as verifiers has it; 0.1 saves each as a string of JSON."""
    whole = json.loads(call) if isinstance(call, str) else call
    inner = whole.get("function") if isinstance(whole, dict) else None
    if isinstance(inner, dict):
        return {"id": whole.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}
    return whole


def tasks(adapter: Any, limit: int) -> Tasks:
    """The index of this environment's rows, built once."""
    known: Tasks | None = getattr(adapter, "stored", None)
    if known is None:
        known = adapter.stored = Tasks(adapter)
    return known


def unfit(adapter: Any) -> str:
    """Nothing speaks against it as such."""
    return ""


def score(adapter: Any, case: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Score the stored rollouts of a case, together if a reward compares them; `members` are their results."""
    timeout = request["case_timeout"]
    adapter.seen = seen = _sibling("watch").Seen()
    adapter.scores = []
    loop = adapter._loop()
    states: list[Any] = []
    started = time.perf_counter()
    try:
        with _sibling("audit").watching(seen, case["id"]):
            scoring = _score(adapter, case, states, request)
            loop.run_until_complete(asyncio.wait_for(scoring, timeout))
    except BaseException as error:
        seen.failed(error, time.perf_counter() - started, timeout)
        if not isinstance(error, Exception):
            adapter.loop = None
    seconds = time.perf_counter() - started
    seen.late(seconds, timeout, first=not adapter.scored)
    adapter.scored = True
    _sibling("audit").look_behind(seen)
    ms = seconds * 1000
    if not adapter.grouped:
        found: dict[str, Any] = adapter._result(states[0] if states else None, ms)
        return found
    members = []
    for state in states:
        metrics = state.get("metrics") or {}
        adapter.scores = [(name, weight, metrics.get(name)) for name, weight in adapter.weights]
        members.append(adapter._result(state, ms))
    return {"reward": None, "components": {}, "metrics": {}, **seen.told(), "ms": ms, "members": members}


async def _score(adapter: Any, case: dict[str, Any], states: list[Any], request: dict[str, Any]) -> None:
    raw = adapter._raw(case["row"]) or {}
    records = case["record"]["group"] if adapter.grouped else [case["record"]]
    for record in records:
        states.append(await _state(adapter, raw, record, request))
    if adapter.grouped:
        await adapter.env.rubric.score_group(states)
    else:
        await adapter.env.rubric.score_rollout(states[0])


async def _state(adapter: Any, raw: dict[str, Any], record: dict[str, Any], request: dict[str, Any]) -> Any:
    said = []
    for message in _module(adapter)._messages(record.get("completion")):
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        said.append({**message, "tool_calls": [_call(c) for c in calls]} if calls else message)
    state = await adapter._state(raw, said)
    state.update(is_truncated=bool(record.get("is_truncated")), stop_condition=record.get("stop_condition"))
    if record.get("tool_defs") and "tool_defs" in state:
        state["tool_defs"] = record["tool_defs"]
    if request["turns"]:
        with contextlib.suppress(TypeError):  # a state that is no plain class of its own
            state.__class__ = _noting(type(state), adapter.seen, set(raw))
    return state


def _noting(kind: Any, seen: Any, row: set[str]) -> Any:
    """The state's class, which notes a key of the environment's own that is read before scoring has written it."""
    usual = _sibling("rollouts_v0")._OF_VERIFIERS | row
    written: set[str] = set()

    def note(key: Any) -> None:
        if isinstance(key, str) and key not in usual and key not in written:
            seen.problem(f"unstored:state[{key!r}]"[:120])

    class Noting(kind):  # type: ignore[misc]
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

    return Noting
