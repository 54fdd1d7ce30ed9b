"""The first rollout of each task, of which nothing but its task is read: what was asked, not what came of it.

As in `light` a line whose types are others than a library writes is left to the tolerant parser of its layout.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prime_lab_mcp.lab.evals.results.rollout import Rollout


class _Task(msgspec.Struct, gc=False):
    key: str
    data: msgspec.Raw


class _Agent(msgspec.Struct, gc=False):
    name: str | None = None
    trainable: bool = True


class _Trace(msgspec.Struct, gc=False):
    task: _Task
    agent: _Agent | None = None


class _Episode(msgspec.Struct, gc=False):
    traces: list[_Trace]


class _Row(msgspec.Struct, gc=False):
    example_id: int | str
    answer: msgspec.Raw = msgspec.Raw(b"null")
    task: msgspec.Raw = msgspec.Raw(b"null")
    info: msgspec.Raw = msgspec.Raw(b"null")


_EPISODE = msgspec.json.Decoder(_Episode).decode
_ROW = msgspec.json.Decoder(_Row).decode
_DATA = msgspec.json.Decoder(dict[str, Any]).decode
_ANY = msgspec.json.Decoder().decode


class FirstOfEach:
    """Tells the tasks that were seen. Their data is decoded once for each task."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def admit(self, rollout: Rollout) -> bool:
        """Whether no rollout of this task was admitted before."""
        if rollout.task in self.seen:
            return False
        self.seen.add(rollout.task)
        return True

    def v1(self, line: bytes) -> list[Rollout] | None:
        try:
            traces = _EPISODE(line).traces
            trained = [t for t in traces if t.agent is None or t.agent.trainable] or traces
            if not trained or not all(t.task.key for t in trained):
                return None  # named by what else the task says
            found = [(_named(t, several=len(trained) > 1), t.task.data) for t in trained]
            return [
                Rollout(name, None, record={"task": {"data": _DATA(data)}})
                for name, data in found
                if name not in self.seen
            ]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def v0(self, line: bytes) -> list[Rollout] | None:
        try:
            row = _ROW(line)
            name = str(row.example_id)
            if name in self.seen:
                return []
            stated = {key: _ANY(value) for key in ("answer", "task", "info") if (value := getattr(row, key))}
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return [Rollout(name, None, record={"example_id": row.example_id, **stated})]


def _named(trace: _Trace, *, several: bool) -> str:
    called = trace.agent.name if several and trace.agent is not None else None
    return f"{trace.task.key}/{called}" if called else trace.task.key
