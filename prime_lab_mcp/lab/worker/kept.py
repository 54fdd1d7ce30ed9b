"""Stored rollouts on their way to a worker, and where it found their tasks, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from prime_lab_mcp.lab.errors import WorkerError

Why = Literal["", "prompt", "data", "ambiguous"]
SCORING = {"op": "rescore", "spent_ms": 1e9}
"""Stored rollouts were scored by a run that waited for slow rewards, so these may be slow again."""
LIMIT = 100_000
"""Tasks of a taskset that are looked through."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Stored tasks to be found. `whole`: all that a task holds must be as it was, not only what it asks."""

    tasks: Sequence[Mapping[str, Any]]
    whole: bool
    limit: int = LIMIT
    all: bool = False

    def request(self) -> dict[str, Any]:
        return {
            "op": "locate", "tasks": [dict(t) for t in self.tasks], "whole": self.whole, "limit": self.limit,
            "all": self.all,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """`row` is None where the present taskset has no such task: `why` says what differs."""

    row: int | None
    why: Why
    task: Mapping[str, Any]
    """The present task in the form that a record holds it. Foreign."""


@dataclass(frozen=True, slots=True)
class Located:
    """`unfit`: why stored rollouts cannot be scored at all. `asked`: a fingerprint of what every present task asks."""

    places: tuple[Place, ...]
    unfit: str
    grouped: bool
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored rollout, or `{"group": [...]}` of v0, to be scored for a present task.

    `turns`: more than one reply happened, so what the rollout left outside of its record counts. `fresh_runtime`: an
    empty folder is what the run scored in.
    """

    id: str
    row: int
    record: Mapping[str, Any]
    turns: bool
    fresh_runtime: bool

    @property
    def manner(self) -> dict[str, Any]:
        return {"turns": self.turns, "fresh_runtime": self.fresh_runtime}

    def asked(self) -> dict[str, Any]:
        return {"id": self.id, "row": self.row, "record": dict(self.record)}


def decode(reply: Any) -> Located:
    """A `locate` reply as a value. Raises WorkerError."""
    try:
        places = tuple(
            Place(None if p["row"] is None else int(p["row"]), cast(Why, str(p["why"])), dict(p["task"] or {}))
            for p in reply["found"]
        )
        return Located(places, str(reply["unfit"]), bool(reply["grouped"]), tuple(map(str, reply["asked"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkerError(
            "the process that runs the environment answered nonsense (locate)",
            fix="Keep the environment's code from writing to file descriptors that it did not open.",
            code="worker-nonsense",
        ) from error
