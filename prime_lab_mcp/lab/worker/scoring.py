"""The inputs and results of a worker's scoring: completions, scripted rollouts, and stored rollouts.

"Foreign text" in these docstrings is text from the environment.
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
from prime_lab_mcp.lab.worker.faults import SIDE_ACTIONS, Problem, ProblemCode, nonsense

End = Literal["ended", "endless", "cut", "slow", "not-run"]
_ENDS = frozenset({"ended", "endless", "cut", "slow", "not-run"})
TURNS = 64
"""Most turns of a rollout whose environment states a limit (`max_turns`). A longer rollout is cut, and has no reward.
Games with 50 moves are common."""
ENDLESS = 120
"""Turns after which a rollout without a stated limit counts as endless."""
OBSERVED_TURNS = 8
"""Turns after which a rollout is cut whose messages are compared with those of the same rollout among others."""
Observed = Literal["", "in-order", "slowly", "in-turns"]
"""How rollouts are run whose messages are compared: one after the other, also with pauses, or in turns. Empty if none
are compared."""
ROLLOUT_SECONDS = 20.0
"""Time limit of one rollout."""
CONTAINER_ROLLOUT_SECONDS = 90.0
"""Time limit of one rollout in a container, which is fetched, started and removed within this time. A rollout that has
begun may take so long, whatever the time limit of all rollouts is."""
SCORING = "scoring, "
"""The beginning of `CaseError.where` if scoring a finished rollout raised the error (v0)."""
SERVING = 90.0
"""Seconds for starting the tool servers of a taskset (v1). Each is a process that needs 4 s of CPU for its imports."""
Why = Literal["", "prompt", "data", "ambiguous"]
"""Why a stored task was not found: no task has its prompt, its data has changed, or several tasks match."""
SPENT_MS = 1e9
"""The limit for slow cases when stored rollouts are scored, in milliseconds. It is so high that it never applies."""
MOST_LOCATED = 100_000
"""Most tasks of a taskset among which stored tasks are searched."""


@dataclass(frozen=True, slots=True)
class Case:
    """A completion to score for the task at index `row`.

    `messages` are the messages of the model and its tools; an empty list means that the model does not reply.
    `rest_of_group` are the other completions of the task that a group reward gets together with this completion.
    `stored` is the trace that an evaluation stored (v1). Only a witness reads it, in place of `messages`.
    """

    id: str
    row: int
    messages: Sequence[Message]
    rest_of_group: Sequence[Sequence[Message]] = ()
    stored: Mapping[str, Any] | None = None
    verdict: str | None = None
    """What a stand-in answers in place of the reward's judge; None if the judge is asked."""


@dataclass(frozen=True, slots=True)
class Component:
    """The score of one reward function. `score` is None if it was not computed or is not finite."""

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
    """One scored case. `reward` is None if the environment's scoring failed or the reward is not finite.

    `ms` is the duration of the scoring in milliseconds.
    """

    id: str
    reward: float | None
    components: Mapping[str, Component] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    errors: tuple[CaseError, ...] = ()
    problems: tuple[Problem, ...] = ()
    ms: float = 0.0
    judges: tuple[JudgeInfo, ...] = ()
    """The judges that were asked."""
    members: tuple[Scored, ...] = ()
    """The result of each rollout if stored rollouts were scored as a group."""
    branches: tuple[str, ...] = ()
    """Branches of the environment's code that no earlier completion of the search took; empty without a search."""
    questions: tuple[str, ...] = ()
    """What the reward asked its judge, if a stand-in answered. Foreign text."""

    @property
    def broken(self) -> bool:
        """Whether scoring failed, so that the reward must not be used."""
        return bool(self.errors) or any(p.code not in SIDE_ACTIONS for p in self.problems)

    def has(self, *codes: ProblemCode) -> bool:
        """Return whether the case has a problem with one of these codes."""
        return any(p.code in codes for p in self.problems)

    def details(self, code: ProblemCode) -> list[str]:
        """Return the details of all problems with this code. The details are foreign text."""
        return [p.detail for p in self.problems if p.code == code]


@dataclass(frozen=True, slots=True)
class SideEffects:
    """The side effects of one scoring.

    `alone` is the reward of the case scored alone. `concurrent` holds its reward when scored concurrently with other
    cases in one event loop; it is None if that was not tried. `mutated` names the inputs that scoring changed.
    `blocked_ms` is the longest time in milliseconds for which scoring blocked the event loop.
    """

    id: str
    alone: float | None
    concurrent: tuple[float | None] | None = None
    mutated: tuple[str, ...] = ()
    blocked_ms: float = 0.0


def decode_scored(reply: ScoreReply, id: str) -> Scored:
    """Decode the reply for one scored case. Raises WorkerError if it is invalid."""
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
            questions=tuple(map(str, reply.get("questions", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("score", reply) from error


def decode_side_effects(reply: Sequence[SideEffectsReply], cases: Sequence[Case]) -> list[SideEffects]:
    """Decode the reply to a `side-effects` request. Raises WorkerError if it is invalid."""
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
    """One rollout to run: the row of its task, and the script of the model (worker/child/scripted_rollouts.py)."""

    row: int
    script: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the environment offered to the model. All fields are foreign text. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """One rollout. `reward` is None if the rollout failed or did not end.

    `end` is one of these: `ended`; `endless` (the environment states no limit of turns, and the worker stopped the
    rollout after `ENDLESS` turns); `cut` (the worker stopped the rollout after `TURNS` turns, before the stated limit);
    `slow` (stopped after its time limit); `not-run`.
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
    """Names of values other than the messages on which the reward may depend, such as keys of the state."""
    unplayable: str = ""
    """Why the solution in the script cannot be played. Foreign text."""
    alone: float | None = None
    """The reward of the same messages when they are scored without a rollout."""
    again: float | None = None
    """The reward of the finished rollout when it is scored a second time."""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The requested rollouts, in order.

    If no rollout can run here, `unavailable` is the reason, and `by_design` says that the reason is no flaw.
    """

    results: tuple[RolloutResult, ...]
    unavailable: str = ""
    by_design: bool = False


def rollouts_request(
    requested: Sequence[RequestedRollout],
    seconds: float,
    case_timeout: float,
    in_order: bool,
    held: bool,
    containers: Mapping[str, str] | None = None,
    observed: Observed = "",
) -> RolloutsRequest:
    """Build the request for rollouts. Times are in seconds. `containers` are the variables that lead to a broker."""
    request: RolloutsRequest = {
        "op": "rollout",
        "rollouts": [{"row": rollout.row, "script": dict(rollout.script)} for rollout in requested],
        "in_order": in_order or held or bool(observed),
        "held": held,
        "observed": observed,
        "seconds": seconds,
        "rollout_seconds": CONTAINER_ROLLOUT_SECONDS if containers else ROLLOUT_SECONDS,
        "serving": SERVING,
        "turns": OBSERVED_TURNS if observed else TURNS,
        "endless": OBSERVED_TURNS if observed else ENDLESS,
        "case_timeout": case_timeout,
    }
    return {**request, "containers": dict(containers)} if containers else request


def decode_rollouts(reply: RolloutsReply) -> Rollouts:
    """Decode the reply to a `rollout` request. Raises WorkerError if it is invalid."""
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
    """One turn of a reference solution. Each call is a pair of a tool's name and its arguments. All data is foreign."""

    text: str | None
    calls: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StatedSolutions:
    """Reference solutions by the row of their task.

    `functions` are the rows of tasks whose solution is a function. Only a rollout can play such a solution.
    """

    turns: Mapping[int, tuple[StatedSolutionTurn, ...]]
    functions: tuple[int, ...] = ()


def decode_stated(rows: Sequence[int], reply: StatedReply) -> StatedSolutions:
    """Decode the reply to a `solutions` request. Raises WorkerError if it is invalid."""
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
    """Stored tasks to find among the first `limit` tasks of the environment.

    With `whole`, all data of a task must be unchanged; otherwise its question is enough. With `all`, the answer also
    has a fingerprint of every task's question.
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
    """The row of a stored task in the environment. If no task matches, `row` is None and `why` is the difference."""

    row: int | None
    why: Why
    task: Mapping[str, Any]
    """The environment's task, in the form of a stored record. Foreign text."""


@dataclass(frozen=True, slots=True)
class LocatedTasks:
    """The rows of stored tasks.

    `unfit` says why stored rollouts cannot be scored; it is empty if they can. `grouped` says that rollouts of a task
    are scored together. `asked` has a fingerprint of every task's question, if that was requested.
    """

    places: tuple[TaskPlace, ...]
    unfit: str
    grouped: bool
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A stored rollout to score for the task at index `row`. In v0, `record` may be `{"group": [...]}`.

    `turns` says that the rollout may have more than one reply, so that a reward may depend on state that is not stored.
    `fresh_runtime` says that the stored run scored in an empty folder.
    """

    id: str
    row: int
    record: Mapping[str, Any]
    turns: bool
    fresh_runtime: bool

    def request(self) -> StoredCase:
        return {"id": self.id, "row": self.row, "record": dict(self.record)}


def decode_located(reply: LocateReply) -> LocatedTasks:
    """Decode the reply to a `locate` request. Raises WorkerError if it is invalid."""
    try:
        places = tuple(
            TaskPlace(None if p["row"] is None else int(p["row"]), cast(Why, str(p["why"])), dict(p["task"] or {}))
            for p in reply["places"]
        )
        return LocatedTasks(places, str(reply["unfit"]), bool(reply["grouped"]), tuple(map(str, reply["asked"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("locate", reply) from error
