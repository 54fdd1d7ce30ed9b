"""Rollouts that an earlier evaluation stored, as input of a worker's scoring, and their present tasks, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from prime_lab_mcp.lab.worker.child.protocol import LocateReply, LocateRequest, StoredCase
from prime_lab_mcp.lab.worker.faults import nonsense

Why = Literal["", "prompt", "data", "ambiguous"]
SPENT_MS = 1e9
"""No limit for slow rewards: the run that stored the rollouts waited for them too."""
LIMIT = 100_000
"""Most tasks of a taskset that are searched."""


@dataclass(frozen=True, slots=True)
class WantedTasks:
    """Stored tasks to find. `whole`: all data of a task must be unchanged, not only its question. `all`: also return a
    fingerprint of every present task's question.
    """

    tasks: Sequence[Mapping[str, Any]]
    whole: bool
    limit: int = LIMIT
    all: bool = False

    def request(self) -> LocateRequest:
        return {
            "op": "locate",
            "tasks": [dict(t) for t in self.tasks],
            "whole": self.whole,
            "limit": self.limit,
            "all": self.all,
        }


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """The present index of a stored task. `row` is None where there is no such task; `why` is the difference."""

    row: int | None
    why: Why
    task: Mapping[str, Any]
    """The present task in the form of a stored record. Foreign text."""


@dataclass(frozen=True, slots=True)
class LocatedTasks:
    """The present tasks of stored rollouts. `unfit`: why stored rollouts cannot be scored at all. `grouped`: rollouts
    of a task are scored together. `asked`: a fingerprint of every present task's question.
    """

    places: tuple[TaskPlace, ...]
    unfit: str
    grouped: bool
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A stored rollout, or `{"group": [...]}` of v0, to be scored for a present task.

    `turns`: the rollout had more than one reply, so state outside of its record matters. `fresh_runtime`: the run
    scored in an empty folder.
    """

    id: str
    row: int
    record: Mapping[str, Any]
    turns: bool
    fresh_runtime: bool

    def request(self) -> StoredCase:
        return {"id": self.id, "row": self.row, "record": dict(self.record)}


def decode_located(reply: LocateReply) -> LocatedTasks:
    """Decode a `locate` reply. Raises WorkerError for anything but a valid reply."""
    try:
        places = tuple(
            TaskPlace(None if p["row"] is None else int(p["row"]), cast(Why, str(p["why"])), dict(p["task"] or {}))
            for p in reply["found"]
        )
        return LocatedTasks(places, str(reply["unfit"]), bool(reply["grouped"]), tuple(map(str, reply["asked"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("locate", reply) from error
