"""Finds the present tasks of rollouts that an earlier evaluation stored."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .protocol import LocateReply, LocateRequest, PlaceReply

if TYPE_CHECKING:
    from .adapter import Adapter


def digest(value: Any) -> str:
    """A short fingerprint of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:24]


class TaskIndex(ABC):
    """The present tasks, by fingerprints of what they ask and of all they hold."""

    @abstractmethod
    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        """The present row of a stored task; or None, and why there is none.

        With `whole` a task matches only if all that it holds is unchanged, not only what it asks.
        """

    @abstractmethod
    def record(self, row: int) -> dict[str, Any]:
        """What a new record of a rollout holds of this task."""

    @abstractmethod
    def fingerprints(self) -> Iterator[str]:
        """A fingerprint of what each task asks, in order."""


def locate(adapter: Adapter, request: LocateRequest) -> LocateReply:
    """For each stored task its present row or why there is none; with `all`, what every present task asks."""
    index = adapter.task_index(request["limit"])
    found: list[PlaceReply] = []
    for stored in request["tasks"]:
        row, why = index.find(stored, request["whole"])
        found.append({"row": row, "why": why, "task": index.record(row) if row is not None else None})
    return {
        "found": found,
        "unfit": adapter.unfit_for_rescoring(),
        "grouped": adapter.grouped,
        "asked": list(index.fingerprints())[: request["limit"]] if request["all"] else [],
    }
