"""The interface between the request loop and the environments of both generations, and the search for the present
tasks of stored rollouts.
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
    """The solutions that the environment states for the asked tasks, as far as they are messages."""
    deadline = time.monotonic() + request["seconds"]
    found: list[list[StatedTurn] | None] = []
    functions: list[int] = []
    for row in request["rows"]:
        turns = None
        if time.monotonic() < deadline:
            try:
                turns = adapter.event_loop().run_until_complete(solutions.stated_turns(adapter.solution(row)))
                functions += [row] if turns is None else []
            except Exception:
                turns = None  # test_reward says what is wrong with it
        found.append(None if turns is None else [_stated_turn(turn) for turn in turns])
    return {"solutions": found, "functions": functions}


def _stated_turn(turn: solutions.SolutionTurn) -> StatedTurn:
    text = None if turn.text is None else coercion.text(turn.text)
    return {"text": text, "calls": [[name, coercion.to_json(given)] for name, given in turn.calls]}


class Adapter(ABC):
    """The environment of this process. Call `load` or `serve` first."""

    grouped = False
    """Whether a reward compares the rollouts of a task, so that a group is scored together."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.scored = False
        """Whether this process has scored a case. The first scoring may take longer, because rewards import late."""

    @abstractmethod
    def load(self, module: ModuleType, request: LoadRequest) -> LoadReply:
        """Load the environment with `env_args` and describe it."""

    def serve(self, module: ModuleType, request: ServeRequest) -> list[ScoreReply]:
        """Score tasks that are rebuilt from their data, without loading the environment (v1)."""
        raise NotImplementedError

    @abstractmethod
    def facts(self) -> FactsReply:
        """Describe the loaded environment beyond its rewards and rows."""

    @abstractmethod
    def rows(self, request: RowsRequest) -> RowsReply:
        """A seeded sample of its tasks, in order."""

    @abstractmethod
    def score(self, case: CaseRequest, timeout: float) -> ScoreReply:
        """Score one completion. Whatever the environment's code raises is part of the result."""

    @abstractmethod
    def measure_side_effects(self, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
        """Score cases alone and concurrently, and report the side effects."""

    @abstractmethod
    async def attempt(self, case: SideEffectsCase) -> ScoringAttempt:
        """Prepare a scoring of this case, without starting the scoring."""

    @abstractmethod
    def changed_since_loading(self, row: int) -> list[str]:
        """The names of a task's inputs that an earlier scoring changed permanently."""

    @abstractmethod
    def run_rollouts(self, request: RolloutsRequest) -> RolloutsReply:
        """Run whole rollouts with a scripted model."""

    @abstractmethod
    def solution(self, row: int) -> Any:
        """What the environment states as the solution of a task (solutions.py). Raises BadSolution if there is none."""

    @abstractmethod
    def task_index(self, limit: int) -> TaskIndex:
        """The index of the present tasks by their content, built once."""

    @abstractmethod
    def unfit_for_rescoring(self) -> str:
        """Why no stored rollout of this environment can be scored alone; empty where each can."""

    @abstractmethod
    def rescore(self, case: StoredCase, request: RescoreRequest) -> ScoreReply:
        """Score a stored rollout. Whatever the environment's code raises is part of the result."""

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop for all scoring of this process."""
        if self.loop is None or self.loop.is_closed():
            self.loop = self.new_event_loop()
        return self.loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """A new loop, where there is none or the last loop was abandoned in the middle of a scoring."""
        return asyncio.new_event_loop()

    def run_scoring(
        self, observation: Observation, key: object, timeout: float, start: Callable[[], Awaitable[None]]
    ) -> float:
        """Run one scoring under observation, and return its duration in milliseconds.

        `key` identifies the completion, to detect different completions that write the same file.
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
        side_effects.look_behind(observation)
        return seconds * 1000
