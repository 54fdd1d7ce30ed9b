"""The rollouts of a finished evaluation as they are stored, one record at a time, and how a record gets new rewards.

v1 stores an episode per line, v0 a rollout. All text in a record is foreign.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.evals.results import Rollout, decode, layout, parse
from prime_lab_mcp.lab.worker.cases import Scored

Record = Mapping[str, Any]
_UNREACHED = "_error"


class Form(Protocol):
    """What differs between the generations."""

    def task(self, record: Record) -> Record: ...
    def several(self, record: Record) -> bool: ...
    def scorable(self, record: Record) -> bool: ...
    def payload(self, record: Record) -> Record: ...
    def said(self, record: Record) -> Sequence[Record] | None: ...
    def renewed(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored rollout with the key of its task. `scorable`: its conversation is complete."""

    record: Record
    task: str
    rollout: Rollout
    scorable: bool


def records(path: Path, form: Form, api: str) -> Iterator[Stored]:
    """Every stored rollout in file order; a broken line is skipped."""
    with path.open("rb") as source:
        for line in source:
            record = decode(line.strip())
            if not isinstance(record, dict) or layout(record) != api:
                continue
            first = next(iter(parse(record, layout(record))))
            yield Stored(record, key(form.task(record)), first, form.scorable(record))


def key(task: Record) -> str:
    """A fingerprint of a stored task."""
    return hashlib.sha256(json.dumps(dict(task), sort_keys=True, default=str).encode()).hexdigest()[:24]


def form_of(api: str) -> Form:
    return _V1() if api == "v1" else _V0()


class _V1:
    def task(self, record: Record) -> Record:
        data = (self._inner(record).get("task") or record.get("task") or {}).get("data") or {}
        return {"data": data}

    def several(self, record: Record) -> bool:
        """More than one agent played."""
        return len(record.get("traces") or ()) > 1

    def scorable(self, record: Record) -> bool:
        """It was scored, or was to be when its reward raised."""
        trace = self._inner(record)
        begun = ((trace.get("timing") or {}).get("scoring") or {}).get("start")
        return bool(trace.get("nodes")) and bool(trace.get("ok") or begun) and not self.several(record)

    def payload(self, record: Record) -> Record:
        return self._inner(record)

    def said(self, record: Record) -> Sequence[Record] | None:
        """Messages from the first reply on; None where the conversation branches."""
        nodes = self._inner(record).get("nodes") or []
        if any((n.get("parent") if n.get("parent") is not None else -1) != at - 1 for at, n in enumerate(nodes)):
            return None
        start = next((at for at, n in enumerate(nodes) if n.get("sampled")), len(nodes))
        return [n["message"] for n in nodes[start:]]

    def renewed(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]:
        """The episode with the present task and what it earns; the task's key stays, so that runs can be paired."""
        old = self._inner(record)
        known = dict(old.get("task") or {})
        broken = told(scored)
        errors = [e for e in old.get("errors") or () if e.get("type") != "TaskError"]
        trace = {
            **old,
            "task": {**known, **task},
            "rewards": {n: _reward(c.score, c.weight) for n, c in scored.components.items()},
            "metrics": dict(scored.metrics),
            "extra_usage": [],
            "errors": [*errors, *broken],
            "ok": not broken,
        }
        if not broken and str(old.get("stop_condition") or "").endswith(_UNREACHED):
            trace["stop_condition"] = "agent_completed"
        whole = {**record, "traces": [trace], "ok": not broken} if "traces" in record else trace
        if "traces" in record:
            whole["task"] = {**(record.get("task") or known), **task}
            whole["errors"] = [e for e in record.get("errors") or () if e.get("type") != "TaskError"]
        return whole

    def _inner(self, record: Record) -> Record:
        traces = record.get("traces")
        if traces is None:
            return record
        return traces[0] if traces else {}


class _V0:
    def task(self, record: Record) -> Record:
        return {k: record.get(k) for k in ("example_id", "prompt", "answer", "info")}

    def several(self, record: Record) -> bool:
        return False

    def scorable(self, record: Record) -> bool:
        return not record.get("error") and record.get("completion") is not None

    def payload(self, record: Record) -> Record:
        return {k: v for k, v in record.items() if k != "trajectory"}

    def said(self, record: Record) -> Sequence[Record] | None:
        said = record.get("completion")
        return [dict(m) for m in said] if isinstance(said, list) else None

    def renewed(self, record: Record, scored: Scored, task: Record) -> dict[str, Any]:
        """The row with the present gold and what it earns. Every metric stands in it twice (verifiers 0.1.14)."""
        before = record.get("metrics") or {}
        metrics = {**{n: c.score for n, c in scored.components.items()}, **scored.metrics}
        kept = {k: v for k, v in record.items() if k not in before}
        broken = told(scored)
        error = [{"error": e["type"], "error_chain_str": f"{e['type']}: {e['message']}"} for e in broken]
        return {
            **kept,
            **{k: v for k, v in task.items() if k in record},
            "reward": 0.0 if broken else scored.reward,
            "error": error[0] if error else None,
            "metrics": metrics,
            **metrics,
        }


def told(scored: Scored) -> list[dict[str, Any]]:
    """Why a stored rollout has no reward, as an error that a record holds; empty where it has one, or a NaN."""
    if not scored.errors and (scored.reward is not None or "nonfinite" in scored.problems):
        return []
    first = scored.errors[0] if scored.errors else None
    message = f"{first.message} ({first.where})" if first else ", ".join(scored.problems) or "it was not scored"
    return [{"type": first.type if first else "NotScored", "message": message, "status_code": None, "traceback": None}]


def _reward(score: float | None, weight: float) -> dict[str, Any]:
    finite = score if score is not None and math.isfinite(score) else None
    return {"score": finite, "weight": weight}
