"""Whole rollouts for a worker, as values: scripts to play, and rollouts that an earlier evaluation stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from prime_lab_mcp.lab.worker.child.protocol import (
    LocateReply,
    LocateRequest,
    RolloutReply,
    RolloutsReply,
    RolloutsRequest,
    StoredCase,
)
from prime_lab_mcp.lab.worker.description import Message, optional_float
from prime_lab_mcp.lab.worker.faults import nonsense
from prime_lab_mcp.lab.worker.scoring import CaseError, Component

End = Literal["ended", "endless", "cut", "slow", "not-run"]
_ENDS = frozenset({"ended", "endless", "cut", "slow", "not-run"})
TURNS = 30
"""Most turns of a rollout whose environment states a limit (`max_turns`); a longer rollout is cut."""
ENDLESS = 120
"""Turns after which a rollout without a stated limit counts as endless: games of 50 moves are usual."""
ROLLOUT_SECONDS = 20.0
SERVING = 40.0
"""Seconds for the tool servers of a taskset (v1), each a process that imports verifiers."""


@dataclass(frozen=True, slots=True)
class Play:
    """One rollout to run: a task, and the script of the model (worker/child/scripted_rollouts.py)."""

    row: int
    script: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that the model was offered. All fields are foreign text."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rolled:
    """One rollout. `reward` is None where the rollout failed or did not end.

    `end`: `ended`; `endless` (no limit, stopped by the worker), `cut` (the stated limit exceeds `TURNS`), `slow`,
    `not-run`.
    """

    messages: tuple[Message, ...]
    reward: float | None
    end: End
    ok: bool
    components: Mapping[str, Component] = field(default_factory=dict)
    stop: str = ""
    errors: tuple[CaseError, ...] = ()
    turns: int = 0
    tools: tuple[Offered, ...] = ()
    state: tuple[str, ...] = ()
    """What the reward may read beside the messages: keys of the state, hooks of the environment."""
    unplayable: str = ""
    """Why the solution that the script names cannot be played. Foreign text."""
    alone: float | None = None
    """The reward of the same messages when they are scored without a rollout."""
    again: float | None = None
    """The reward of the finished rollout when it is scored again after all others."""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The requested rollouts, in order. `unavailable`: why none could be run; `by_design`: the reason is no flaw."""

    rolled: tuple[Rolled, ...]
    unavailable: str = ""
    by_design: bool = False


def rollouts_request(plays: Sequence[Play], seconds: float, case_timeout: float) -> RolloutsRequest:
    """Build the request for a worker. Times are in seconds."""
    return {
        "op": "rollout",
        "rollouts": [{"row": play.row, "script": dict(play.script)} for play in plays],
        "seconds": seconds,
        "rollout_seconds": ROLLOUT_SECONDS,
        "serving": SERVING,
        "turns": TURNS,
        "endless": ENDLESS,
        "case_timeout": case_timeout,
    }


def decode_rollouts(reply: RolloutsReply) -> Rollouts:
    """Decode a `rollout` reply. Raises WorkerError for anything but a valid reply."""
    try:
        return Rollouts(tuple(map(_rolled, reply["rollouts"])), str(reply["unavailable"]), bool(reply["by_design"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("rollout", reply) from error


def _rolled(reply: RolloutReply) -> Rolled:
    if reply["end"] not in _ENDS:
        raise ValueError(reply["end"])
    return Rolled(
        messages=tuple(dict(m) for m in reply["messages"]),
        reward=optional_float(reply["reward"]),
        end=reply["end"],
        ok=bool(reply["ok"]),
        components={
            str(n): Component(optional_float(c["score"]), float(c["weight"] or 0.0))
            for n, c in reply["components"].items()
        },
        stop=str(reply["stop"]),
        errors=tuple(CaseError(str(e["type"]), str(e["message"]), str(e["where"])) for e in reply["errors"]),
        turns=int(reply["turns"]),
        tools=tuple(Offered(str(t["name"]), str(t["description"]), dict(t["parameters"])) for t in reply["tools"]),
        state=tuple(map(str, reply["state"])),
        unplayable=str(reply["unplayable"]),
        alone=optional_float(reply["alone"]),
        again=optional_float(reply["again"]),
        ms=float(reply["ms"]),
    )


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
