"""The interface between the request loop and the environments of both generations."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import ModuleType

from . import audit
from .observer import Observation
from .protocol import (
    CaseRequest,
    FactsReply,
    LoadReply,
    LoadRequest,
    RescoreRequest,
    RolloutsReply,
    RolloutsRequest,
    RowsReply,
    RowsRequest,
    ScoreReply,
    ServeRequest,
    SideEffectsCase,
    SideEffectsReply,
    StoredCase,
)
from .side_effects import ScoringAttempt
from .stored_rollouts import TaskIndex


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
            with audit.watching(observation, key):
                loop.run_until_complete(asyncio.wait_for(scoring, timeout))
        except BaseException as error:
            observation.scoring_failed(error, time.perf_counter() - started, timeout)
            if not isinstance(error, Exception):
                self.loop = None
        seconds = time.perf_counter() - started
        observation.check_duration(seconds, timeout, first=not self.scored)
        self.scored = True
        audit.look_behind(observation)
        return seconds * 1000
