"""Serialisation of v1 tasks: whether a task survives the wire between trainer and env server.

The env server never calls `load()`. The trainer sends it `TaskData` as JSON, from which it rebuilds
`TaskT(DataT.model_validate(...), config.task)` (verifiers 0.4.0, serve/server.py).
"""

from __future__ import annotations

import json
from typing import Any

from . import coercion
from .protocol import LossyReply, SentTask

_TRIPS = 500
"""Tasks that are serialised and rebuilt; of a larger set evenly spaced ones."""
_SHOWN = 3
_SENT = 3
_LARGEST = 2**64 - 1


def tried_rows(size: int, wanted: int = _TRIPS) -> list[int]:
    """The rows of the tasks that are serialised and rebuilt."""
    return list(range(size)) if size <= wanted else [i * size // wanted for i in range(wanted)]


def sent_tasks(tasks: list[Any], rows: list[int]) -> list[SentTask]:
    """A few tasks as they are sent."""
    return [{"row": i, "data": d} for i in rows[:_SENT] if (d := _dumped(tasks[i].data)) is not None]


def lossy_tasks(tasks: list[Any], rows: list[int], declared: type[Any]) -> tuple[list[LossyReply], int]:
    """Some of the tasks that do not come back equal, and their number."""
    lost = [(i, *loss) for i in rows if (loss := lossy(tasks[i].data, declared))]
    return [{"row": i, "field": name, "why": coercion.text(why, 300)} for i, name, why in lost[:_SHOWN]], len(lost)


def _dumped(data: Any) -> Any:
    try:
        return json.loads(json.dumps(data.model_dump(mode="json"), allow_nan=False))
    except Exception:
        return None


def lossy(data: Any, declared: type[Any]) -> tuple[str, str] | None:
    """The field that does not survive the wire, and why; None when the task comes back equal."""
    try:
        sent = data.model_dump(mode="json")
        text = json.dumps(sent)
    except Exception as error:
        return _culprit(data), f"{type(error).__name__}: {error}"
    if (name := _too_large(sent)) is not None:
        return name, "an integer beyond 64 bits cannot be sent"
    try:
        again = declared.model_validate(json.loads(text))
    except Exception as error:
        return "", f"what was sent is refused: {error}"
    if type(data) is not declared:
        more = sorted(set(type(data).model_fields) - set(declared.model_fields))
        what = f"its fields {', '.join(more)} are dropped" if more else "its class is replaced"
        return "", f"the data is a {type(data).__name__}, the Task declares {declared.__name__}: {what}"
    for name in declared.model_fields:
        before, after = getattr(data, name), getattr(again, name)
        if not _same(before, after):
            return name, f"{type(before).__name__} {before!r:.80} comes back as {type(after).__name__} {after!r:.80}"
    return None


def _same(one: Any, other: Any) -> bool:
    if repr(one) == repr(other):  # NaN equals itself here
        return True
    try:
        return bool(one == other) and type(one) is type(other)
    except Exception:
        return False


def _culprit(data: Any) -> str:
    for name in type(data).model_fields:
        try:
            json.dumps(data.model_dump(mode="json", include={name}))
        except Exception:
            return str(name)
    return ""


def _too_large(sent: dict[str, Any]) -> str | None:
    def large(value: Any) -> bool:
        if isinstance(value, int):
            return not -(2**63) <= value <= _LARGEST
        if isinstance(value, dict):
            return any(map(large, value.values()))
        return isinstance(value, list) and any(map(large, value))

    return next((name for name, value in sent.items() if large(value)), None)
