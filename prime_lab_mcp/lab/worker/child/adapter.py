"""The interface between the request loop and an environment. v0 and v1 environments each have an adapter.

The module also looks up the current tasks of stored rollouts (`TaskIndex`), and reads reference solutions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

from . import coercion, side_effects, solutions
from .observer import Observation
from .protocol import (
    CaseRequest,
    FactsReply,
    LoadReply,
    LoadRequest,
    LocateReply,
    LocateRequest,
    PlaceReply,
    RescoreRequest,
    RolloutsReply,
    RolloutsRequest,
    RowsReply,
    RowsRequest,
    ScoreReply,
    ServedRolloutsRequest,
    ServeRequest,
    SideEffectsCase,
    SideEffectsReply,
    StatedReply,
    StatedRequest,
    StatedTurn,
    StoredCase,
)
from .side_effects import ScoringAttempt


def digest(value: Any) -> str:
    """A short fingerprint of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:24]


class TaskIndex(ABC):
    """Looks up tasks of the loaded environment by fingerprints of their questions and of all their data."""

    @abstractmethod
    def find(self, stored: dict[str, Any], whole: bool) -> tuple[int | None, str]:
        """Return the row of the task that equals a stored task, or None and the difference.

        The difference is `prompt`, `data` or `ambiguous`. If `whole` is true, all data of the task must be unchanged;
        otherwise its question is enough.
        """

    @abstractmethod
    def record(self, row: int) -> dict[str, Any]:
        """Return the task as a new rollout record would store it."""

    @abstractmethod
    def fingerprints(self) -> Iterator[str]:
        """Yield a fingerprint of each task's question, in task order."""


def locate(adapter: Adapter, request: LocateRequest) -> LocateReply:
    """Find the row of each stored task. With `all`, also return a fingerprint of every task's question."""
    index = adapter.task_index(request["limit"])
    places: list[PlaceReply] = []
    for stored in request["tasks"]:
        row, why = index.find(stored, request["whole"])
        places.append({"row": row, "why": why, "task": index.record(row) if row is not None else None})
    return {
        "places": places,
        "unfit": adapter.unfit_for_rescoring(),
        "grouped": adapter.grouped,
        "asked": list(index.fingerprints())[: request["limit"]] if request["all"] else [],
    }


def stated_solutions(adapter: Adapter, request: StatedRequest) -> StatedReply:
    """Read the reference solutions of the requested tasks that are lists of messages."""
    deadline = time.monotonic() + request["seconds"]
    replies: list[list[StatedTurn] | None] = []
    functions: list[int] = []
    for row in request["rows"]:
        turns = None
        if time.monotonic() < deadline:
            try:
                turns = adapter.event_loop().run_until_complete(solutions.stated_turns(adapter.solution(row)))
                functions += [row] if turns is None else []
            except Exception:
                turns = None  # test_reward reports what is wrong with the solution.
        replies.append(None if turns is None else [_stated_turn(turn) for turn in turns])
    return {"solutions": replies, "functions": functions}


def _stated_turn(turn: solutions.SolutionTurn) -> StatedTurn:
    text = None if turn.text is None else coercion.text(turn.text)
    return {"text": text, "calls": [[name, coercion.to_json(given)] for name, given in turn.calls]}


class Adapter(ABC):
    """The environment that this process has loaded. Call `load` or `serve` first."""

    grouped = False
    """Whether a reward compares rollouts of one task (a group reward), so that they are scored together."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.scored = False
        """Whether this process has scored a case. The first scoring may take longer: rewards import modules then."""

    @abstractmethod
    def load(self, module: ModuleType, request: LoadRequest) -> LoadReply:
        """Load the environment with `env_args` and describe it."""

    def serve(self, module: ModuleType, request: ServeRequest) -> list[ScoreReply]:
        """Score tasks that are rebuilt from their data, without loading the environment (v1)."""
        raise NotImplementedError

    def serve_rollouts(self, module: ModuleType, request: ServedRolloutsRequest) -> RolloutsReply:
        """Run rollouts of tasks that are rebuilt from their data, without loading the environment (v1)."""
        raise NotImplementedError

    def task_data(self, rows: list[int]) -> list[Any]:
        """Return the data of tasks as the trainer sends them; None for data that cannot be sent (v1)."""
        raise NotImplementedError

    @abstractmethod
    def facts(self) -> FactsReply:
        """Describe the loaded environment beyond its rewards and rows."""

    @abstractmethod
    def rows(self, request: RowsRequest) -> RowsReply:
        """Return a seeded sample of the tasks, in task order."""

    @abstractmethod
    def score(self, case: CaseRequest, timeout: float) -> ScoreReply:
        """Score one completion within `timeout` seconds. Exceptions of environment code become part of the reply."""

    @abstractmethod
    def measure_side_effects(self, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
        """Score cases alone and concurrently, and report the side effects."""

    @abstractmethod
    async def attempt(self, case: SideEffectsCase) -> ScoringAttempt:
        """Prepare the scoring of a case, but do not start it."""

    @abstractmethod
    def changed_since_loading(self, row: int) -> list[str]:
        """The names of a task's inputs that an earlier scoring changed permanently."""

    @abstractmethod
    def run_rollouts(self, request: RolloutsRequest) -> RolloutsReply:
        """Run whole rollouts with a scripted model."""

    @abstractmethod
    def solution(self, row: int) -> Any:
        """Return the task's reference solution (solutions.py). Raises BadSolution if the environment states none."""

    @abstractmethod
    def task_index(self, limit: int) -> TaskIndex:
        """Return the index of the environment's first `limit` tasks. The index is built once."""

    @abstractmethod
    def unfit_for_rescoring(self) -> str:
        """Return why stored rollouts of this environment cannot be scored; an empty string if they can."""

    @abstractmethod
    def rescore(self, case: StoredCase, request: RescoreRequest) -> ScoreReply:
        """Score a stored rollout. Exceptions of the environment's code become part of the reply."""

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop in which this process scores."""
        if self.loop is None or self.loop.is_closed():
            self.loop = self.new_event_loop()
        return self.loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Make an event loop. Called for the first scoring, and after a scoring that left the last loop unusable."""
        return asyncio.new_event_loop()

    def run_scoring(
        self, observation: Observation, key: object, timeout: float, start: Callable[[], Awaitable[None]]
    ) -> float:
        """Run one scoring under observation, and return its duration in milliseconds.

        `key` identifies the completion, so that two completions that write the same file are noticed.
        """
        loop = self.event_loop()
        started = time.perf_counter()
        try:
            scoring = start()
            with side_effects.watching(observation, key):
                loop.run_until_complete(asyncio.wait_for(scoring, timeout))
        except BaseException as error:
            observation.scoring_failed(error, time.perf_counter() - started, timeout)
            if not isinstance(error, Exception):
                self.loop = None
        seconds = time.perf_counter() - started
        observation.check_duration(seconds, timeout, first=not self.scored)
        self.scored = True
        side_effects.note_left_processes(observation)
        return seconds * 1000
