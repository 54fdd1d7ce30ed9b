"""What a worker scores, and the results, as values: completions, scripted rollouts, and rollouts that an earlier
evaluation stored.
"""

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
    ScoreReply,
    SideEffectsReply,
    StatedReply,
    StoredCase,
)
from prime_lab_mcp.lab.worker.description import JudgeInfo, Message, decode_judges, optional_float
from prime_lab_mcp.lab.worker.faults import DEEDS, Problem, ProblemCode, nonsense

End = Literal["ended", "endless", "cut", "slow", "not-run"]
_ENDS = frozenset({"ended", "endless", "cut", "slow", "not-run"})
TURNS = 30
"""Most turns of a rollout whose environment states a limit (`max_turns`); a longer rollout is cut."""
ENDLESS = 120
"""Turns after which a rollout without a stated limit counts as endless: games of 50 moves are usual."""
ROLLOUT_SECONDS = 20.0
SCORING = "scoring, "
"""How the place of an error begins that the scoring of a finished rollout raised (v0)."""
SERVING = 90.0
"""Seconds for the tool servers of a taskset (v1), each a process that imports verifiers: 4 s of CPU."""
Why = Literal["", "prompt", "data", "ambiguous"]
SPENT_MS = 1e9
"""No limit for slow rewards: the run that stored the rollouts waited for them too."""
MOST_LOCATED = 100_000
"""Most tasks of a taskset that are searched."""


@dataclass(frozen=True, slots=True)
class Case:
    """A completion to be scored for one task. `messages` are those of the model and its tools; empty means no reply.

    `company` are other completions of the task, which a group reward gets together with this one.
    """

    id: str
    row: int
    messages: Sequence[Message]
    company: Sequence[Sequence[Message]] = ()


@dataclass(frozen=True, slots=True)
class Component:
    """The score of one reward function. `score` is None where it was not computed or is not finite."""

    score: float | None
    weight: float


@dataclass(frozen=True, slots=True)
class CaseError:
    """An exception of a scoring function. All fields are foreign text."""

    type: str
    message: str
    where: str


@dataclass(frozen=True, slots=True)
class Scored:
    """One scored case. `reward` is None where the environment's scoring failed or the reward is not finite."""

    id: str
    reward: float | None
    components: Mapping[str, Component] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    errors: tuple[CaseError, ...] = ()
    problems: tuple[Problem, ...] = ()
    ms: float = 0.0
    judges: tuple[JudgeInfo, ...] = ()
    """Models that were asked."""
    members: tuple[Scored, ...] = ()
    """The results of the single rollouts, where stored rollouts were scored as a group."""
    branches: tuple[str, ...] = ()
    """In a search: branches of the environment's code that no earlier completion of the search took."""

    @property
    def broken(self) -> bool:
        """Whether scoring failed, so that the reward is meaningless."""
        return bool(self.errors) or any(p.code not in DEEDS for p in self.problems)

    def has(self, *codes: ProblemCode) -> bool:
        """Whether scoring had one of these problems."""
        return any(p.code in codes for p in self.problems)

    def details(self, code: ProblemCode) -> list[str]:
        """The details of all problems with this code. The details are foreign text."""
        return [p.detail for p in self.problems if p.code == code]


@dataclass(frozen=True, slots=True)
class SideEffects:
    """The side effects of one scoring.

    `alone` is the reward when scored alone. `concurrent` is the reward under concurrency in one event loop, None where
    that was not tried. `mutated` names the inputs that scoring changed. `blocked_ms` is the longest time for which
    scoring blocked the event loop.
    """

    id: str
    alone: float | None
    concurrent: tuple[float | None] | None = None
    mutated: tuple[str, ...] = ()
    blocked_ms: float = 0.0


def decode_scored(reply: ScoreReply, id: str) -> Scored:
    """Decode the result of one scored case. Raises WorkerError for anything but a valid reply."""
    try:
        return Scored(
            id=id,
            reward=optional_float(reply["reward"]),
            components={
                str(n): Component(optional_float(c["score"]), float(c["weight"] or 0.0))
                for n, c in reply["components"].items()
            },
            metrics={str(n): optional_float(v) for n, v in reply["metrics"].items()},
            errors=tuple(CaseError(str(e["type"]), str(e["message"]), str(e["where"])) for e in reply["errors"]),
            problems=tuple(Problem(ProblemCode(p["code"]), str(p["detail"])) for p in reply["problems"]),
            ms=float(reply["ms"]),
            judges=decode_judges(reply["judges"]),
            members=tuple(decode_scored(member, id) for member in reply.get("members", ())),
            branches=tuple(str(branch)[:300] for branch in reply.get("branches", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("score", reply) from error


def decode_side_effects(reply: Sequence[SideEffectsReply], cases: Sequence[Case]) -> list[SideEffects]:
    """Decode the reply to a side-effects request. Raises WorkerError for anything but a valid reply."""
    try:
        return [
            SideEffects(
                case.id,
                optional_float(measured["alone"]),
                None if measured["concurrent"] is None else (optional_float(measured["concurrent"][0]),),
                tuple(str(name)[:80] for name in measured["mutated"]),
                float(measured["blocked"]) * 1000,
            )
            for case, measured in zip(cases, reply, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise nonsense("side-effects", reply) from error


@dataclass(frozen=True, slots=True)
class RequestedRollout:
    """One rollout to run: a task, and the script of the model (worker/child/scripted_rollouts.py)."""

    row: int
    script: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model was offered. All fields are foreign text."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RolloutResult:
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
    tools: tuple[OfferedTool, ...] = ()
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

    results: tuple[RolloutResult, ...]
    unavailable: str = ""
    by_design: bool = False


def rollouts_request(
    plays: Sequence[RequestedRollout], seconds: float, case_timeout: float, in_order: bool, held: bool
) -> RolloutsRequest:
    """Build the request for a worker. Times are in seconds."""
    return {
        "op": "rollout",
        "rollouts": [{"row": play.row, "script": dict(play.script)} for play in plays],
        "in_order": in_order or held,
        "held": held,
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
        return Rollouts(
            tuple(map(_rollout_result, reply["rollouts"])), str(reply["unavailable"]), bool(reply["by_design"])
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("rollout", reply) from error


def _rollout_result(reply: RolloutReply) -> RolloutResult:
    if reply["end"] not in _ENDS:
        raise ValueError(reply["end"])
    return RolloutResult(
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
        tools=tuple(OfferedTool(str(t["name"]), str(t["description"]), dict(t["parameters"])) for t in reply["tools"]),
        state=tuple(map(str, reply["state"])),
        unplayable=str(reply["unplayable"]),
        alone=optional_float(reply["alone"]),
        again=optional_float(reply["again"]),
        ms=float(reply["ms"]),
    )


@dataclass(frozen=True, slots=True)
class StatedSolutionTurn:
    """One turn of a stated solution. Each call is a tool's name and its arguments. All of it is foreign data."""

    text: str | None
    calls: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StatedSolutions:
    """Solutions by task. `functions` are the tasks whose solution is a function, which only a rollout can play."""

    turns: Mapping[int, tuple[StatedSolutionTurn, ...]]
    functions: tuple[int, ...] = ()


def decode_stated(rows: Sequence[int], reply: StatedReply) -> StatedSolutions:
    """Decode a `solutions` reply. Raises WorkerError for anything but a valid reply."""
    try:
        turns = {
            row: tuple(
                StatedSolutionTurn(
                    None if t["text"] is None else str(t["text"]),
                    tuple((str(name), given) for name, given in t["calls"]),
                )
                for t in stated
            )
            for row, stated in zip(rows, reply["solutions"], strict=True)
            if stated
        }
        return StatedSolutions(turns, tuple(map(int, reply["functions"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("solutions", reply) from error


@dataclass(frozen=True, slots=True)
class WantedTasks:
    """Stored tasks to find. `whole`: all data of a task must be unchanged, not only its question. `all`: also return a
    fingerprint of every present task's question.
    """

    tasks: Sequence[Mapping[str, Any]]
    whole: bool
    limit: int = MOST_LOCATED
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
            for p in reply["places"]
        )
        return LocatedTasks(places, str(reply["unfit"]), bool(reply["grouped"]), tuple(map(str, reply["asked"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("locate", reply) from error
