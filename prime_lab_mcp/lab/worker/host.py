"""Runs environment code for the server: one environment, loaded in a child process.

A child that hangs, dies or floods is killed with all its descendants and reported; the next request starts a fresh
child. The server's process never runs environment code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.base.load_deadline import load_deadline
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.sandbox.caches import DataCache
from prime_lab_mcp.lab.sandbox.policy import Confinement
from prime_lab_mcp.lab.worker.channel import ChannelClosed, ChannelFlood, ChannelGarbage
from prime_lab_mcp.lab.worker.child import protocol
from prime_lab_mcp.lab.worker.description import (
    Loaded,
    Message,
    RewardInfo,
    Row,
    Rows,
    Traits,
    decode_loaded,
    decode_rows,
    decode_traits,
)
from prime_lab_mcp.lab.worker.faults import (
    NOT_RUN,
    PROBLEMS,
    SIGKILL,
    LoadFailed,
    Problem,
    confined,
    exited,
    flooded,
    nonsense,
    out_of_memory,
    timed_out,
)
from prime_lab_mcp.lab.worker.scoring import (
    SERVING,
    SPENT_MS,
    Case,
    CaseError,
    Component,
    LocatedTasks,
    RequestedRollout,
    Rollouts,
    Scored,
    SideEffects,
    StatedSolutions,
    StoredRollout,
    WantedTasks,
    decode_located,
    decode_rollouts,
    decode_scored,
    decode_side_effects,
    decode_stated,
    rollouts_request,
)
from prime_lab_mcp.lab.worker.witness import Witness, open_witness
from prime_lab_mcp.lab.worker.zygote import Ended, SupervisedChild, Zygote

__all__ = [
    "Case",
    "CaseError",
    "Component",
    "LoadFailed",
    "Loaded",
    "RewardInfo",
    "Row",
    "Rows",
    "Scored",
    "Worker",
]

_FAULTS = 5
"""Number of cases of one call that may kill their child; after that, the rest is reported as not run."""
_GRACE = 2.0
_FIRST_GRACE = 8.0
_PATIENCE = 2.0
_LATE = 15.0
"""Seconds for the scoring after the last rollout."""


@dataclass(frozen=True, slots=True)
class Twin:
    """Opens the same environment in another process (`open`), and starts a process with another hash seed (`warm`)."""

    open: Callable[..., AbstractAsyncContextManager[Worker]]
    """With `hash_seed`, another zygote is needed, which imports verifiers."""
    warm: Callable[[], Awaitable[None]]


class Worker:
    """One environment, which the first call loads in a child. Calls are serialised."""

    def __init__(
        self,
        zygote: Zygote,
        key: str,
        tree: Path,
        api: Api,
        module: str,
        env_args: dict[str, Any],
        hidden: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self._zygote = zygote
        self._tree = tree
        self._api: Api = api
        self._module = module
        self._env_args = env_args
        self._hidden = list(hidden)
        self._variables = dict(variables or {})
        self._child: SupervisedChild | None = None
        self._loaded: Loaded | None = None
        self._scored = False
        self._keys: dict[int, str] = {}
        self._lock = anyio.Lock()
        self._number = 0
        self.twin: Twin | None = None
        self.cache: DataCache | None = None
        self.confinement: Confinement | None = None
        """What the environment's code may reach besides its scratch folder; None where nothing is confined."""

    @property
    def warm(self) -> bool:
        return self._child is not None and self._loaded is not None and self._child.alive

    async def load(self, *, timeout: float = 60) -> Loaded:
        """Load the environment, unless it is loaded already. Raises LoadFailed, WorkerError, InterpreterError."""
        async with self._lock:
            return await self._ensure(timeout)

    async def rows(self, *, limit: int, seed: int = 0, split: str | None = None, timeout: float = 60) -> Rows:
        """A seeded sample of at most `limit` tasks, or the first tasks of an infinite taskset.

        `split` is `train` or `eval`. A v1 taskset chooses its split by `env_args`; `eval` then lists the tasks of the
        split that is not loaded, and none where its config has no field for the split.
        """
        async with self._lock:
            await self._ensure(timeout)
            asked: protocol.RowsRequest = {"op": "rows", "limit": limit, "seed": seed, "split": split}
            rows = decode_rows(await self._ask_loading(asked, timeout, "listing its tasks"))
            if split is None:
                self._keys.update((row.index, row.key) for row in rows.rows)
            return rows

    async def facts(self, *, timeout: float = 60) -> Traits:
        """Describe the loaded environment beyond rewards and rows."""
        async with self._lock:
            await self._ensure(timeout)
            return decode_traits(await self._ask_loading({"op": "facts"}, timeout, "describing itself"))

    async def serve(
        self, cases: Sequence[tuple[Mapping[str, Any], Case]], *, case_timeout: float = 5, timeout: float = 60
    ) -> list[Scored]:
        """Score completions in the same way as the env server of a v1 training run.

        Each case comes with the data of its task as sent. A fresh child rebuilds the tasks from their data, never calls
        `load()`, and ends afterwards. Raises LoadFailed if a task cannot be rebuilt.
        """
        async with self._lock:
            await self._drop()
            self._child = await self._zygote.fork()
            asked: list[protocol.ServedCase] = [
                {"data": dict(data), "messages": _dicts(case.messages)} for data, case in cases
            ]
            request: protocol.ServeRequest = {
                "op": "serve",
                **self._environment(),
                "cases": asked,
                "case_timeout": case_timeout,
            }
            reply = await self._ask(request, timeout, "scoring rebuilt tasks")
            await self._drop()
            if not isinstance(reply, list) or len(reply) != len(cases):
                raise nonsense("serve", reply)
            return [decode_scored(scored, case.id) for scored, (_, case) in zip(reply, cases, strict=True)]

    async def measure_side_effects(
        self, cases: Sequence[tuple[Case, bool]], *, case_timeout: float = 5
    ) -> list[SideEffects]:
        """Measure side effects of scoring: mutated inputs, a blocked event loop, and rewards under concurrency.

        Cases marked true are also scored concurrently. Pass only cases that were scored without breaking their process.
        Raises LoadFailed or WorkerError if they break it here.
        """
        asked: list[protocol.SideEffectsCase] = [
            {"row": case.row, "messages": _dicts(case.messages), "concurrent": among} for case, among in cases
        ]
        async with self._lock:
            await self._ensure(60)
            request: protocol.SideEffectsRequest = {"op": "side-effects", "cases": asked, "case_timeout": case_timeout}
            reply = await self._ask(request, 60, "scoring several completions at once")
            return decode_side_effects(reply, [case for case, _ in cases])

    async def rollout(
        self,
        plays: Sequence[RequestedRollout],
        *,
        seconds: float,
        case_timeout: float = 5,
        in_order: bool = False,
        held: bool = False,
    ) -> Rollouts:
        """Run whole rollouts with a scripted model through the environment's own loop, tools and hooks.

        Rollouts that have not begun after `seconds` are not run. `in_order`: one after the other. `held`: also, with
        the same state of every random generator at the start of each. Raises LoadFailed or WorkerError if the
        environment hangs or ends its process.
        """
        async with self._lock:
            await self._ensure(60)
            limit = seconds + (SERVING if self._api == "v1" else 0) + _LATE
            request = rollouts_request(plays, seconds, case_timeout, in_order, held)
            return decode_rollouts(await self._ask(request, limit, "running whole rollouts"))

    @asynccontextmanager
    async def elsewhere(self, hash_seed: int | None = None) -> AsyncIterator[Worker]:
        """Open the same environment in another process. Scoring a task that differs there gives `TASK_CHANGED`."""
        assert self.twin is not None
        async with self.twin.open(hash_seed=hash_seed) as other:
            other._keys.update(self._keys)
            yield other

    def witness(self, last_row: int, left_out: frozenset[str] = frozenset()) -> AbstractAsyncContextManager[Witness]:
        """Open a witness for the same environment, which loads in the background; `last_row` is its last task.

        `left_out` are files of the folder that an installation lacks.
        """
        return open_witness(
            self._zygote,
            self._tree,
            self._module,
            self._env_args,
            self._variables,
            last_row,
            self.cache,
            self.confinement,
            left_out,
        )

    def _environment(self) -> protocol.EnvironmentRequest:
        assert self._child is not None
        return {
            "tree": str(self._tree),
            "module": self._module,
            "env_args": self._env_args,
            "hidden": self._hidden,
            "variables": self._variables,
            "scratch": str(self._child.scratch),
            "caches": self.cache.variables() if self.cache is not None else {},
            "confinement": self._policy(self._child.scratch),
        }

    def _policy(self, scratch: Path) -> dict[str, Any] | None:
        if self.confinement is None:
            return None
        allowed = replace(self.confinement, write=(*self.confinement.write, scratch))
        return allowed.as_json()

    async def score(
        self,
        cases: Sequence[Case],
        *,
        case_timeout: float = 5,
        timeout: float | None = None,
        search: int | None = None,
    ) -> list[Scored]:
        """Score completions through the environment's own scoring, in order.

        Faults of a reward, including hanging and ending the process, are problems in the result of its case; a fresh
        child scores the following cases. Raises LoadFailed, or WorkerError if all cases together exceed `timeout`
        (default: the sum of their limits and 120 seconds). `search` numbers a search for reward holes, whose results
        name the branches that they took first.
        """
        limit = timeout if timeout is not None else 120 + len(cases) * (case_timeout + 1)
        async with self._lock:
            try:
                with anyio.fail_after(limit):
                    return await self._score_all(cases, case_timeout, search)
            except TimeoutError:
                await self._drop()
                raise timed_out("scoring all cases", limit, "") from None

    async def solutions(self, rows: Sequence[int], *, seconds: float) -> StatedSolutions:
        """The solutions that the environment states for some tasks, without running them."""
        async with self._lock:
            await self._ensure(60)
            request: protocol.StatedRequest = {"op": "solutions", "rows": list(rows), "seconds": seconds}
            reply = await self._ask(request, seconds + _LATE, "reading the solutions of tasks")
            return decode_stated(rows, reply)

    async def locate(self, wanted: WantedTasks, *, timeout: float = 180) -> LocatedTasks:
        """Find the tasks of stored rollouts in the present taskset."""
        async with self._lock:
            await self._ensure(60)
            return decode_located(
                await self._ask(wanted.request(), timeout, "looking for the tasks of stored rollouts")
            )

    async def rescore(self, asked: Sequence[StoredRollout], *, case_timeout: float = 30) -> list[Scored]:
        """Score rollouts that an earlier evaluation stored, in order. Faults are reported as by `score`."""
        async with self._lock:
            return await self._score_all(asked, case_timeout)

    async def _score_all(
        self, cases: Sequence[Case | StoredRollout], case_timeout: float, search: int | None = None
    ) -> list[Scored]:
        done: list[Scored] = []
        faults = 0
        while len(done) < len(cases):
            await self._ensure(60)
            try:
                # The first case of a process may take longer, because rewards import late.
                grace = _GRACE if done or self._scored else _FIRST_GRACE
                await self._score_some(cases, done, case_timeout, grace, search)
            except WorkerError as error:
                if error.code not in PROBLEMS:
                    raise
                case = cases[len(done)]
                error_of_case = CaseError(error.code, error.message, "")
                done.append(Scored(case.id, None, errors=(error_of_case,), problems=(Problem(PROBLEMS[error.code]),)))
                faults += 1
                if faults >= _FAULTS:
                    error_of_case = CaseError("not-run", f"{faults} earlier cases ended their process", "")
                    done += [Scored(c.id, None, errors=(error_of_case,), problems=NOT_RUN) for c in cases[len(done) :]]
        return done

    async def _score_some(
        self,
        cases: Sequence[Case | StoredRollout],
        done: list[Scored],
        case_timeout: float,
        grace: float,
        search: int | None,
    ) -> None:
        rest = cases[len(done) :]
        await self._tell(self._scoring(rest, case_timeout, search))
        for number in range(len(rest)):
            reply = await self._hear(case_timeout + grace, "scoring a case")
            if reply.get("case") != number:
                raise await self._broken(nonsense("score", reply))
            try:
                done.append(decode_scored(reply["result"], cases[len(done)].id))
                self._scored = True
            except WorkerError as error:
                raise await self._broken(error) from error
            grace = _GRACE
        await self._hear(_GRACE, "scoring")

    def _scoring(
        self, cases: Sequence[Case | StoredRollout], case_timeout: float, search: int | None
    ) -> protocol.ScoreRequest | protocol.RescoreRequest:
        """The request for cases, which are all of one kind."""
        stored = [c for c in cases if isinstance(c, StoredRollout)]
        if stored:
            return {
                "op": "rescore",
                "cases": [c.request() for c in stored],
                "case_timeout": case_timeout,
                "turns": stored[0].turns,
                "fresh_runtime": stored[0].fresh_runtime,
                "spent_ms": SPENT_MS,
            }
        asked: list[protocol.CaseRequest] = [
            {
                "row": case.row,
                "key": self._keys.get(case.row),
                "messages": _dicts(case.messages),
                "company": [_dicts(other) for other in case.company],
            }
            for case in cases
            if isinstance(case, Case)
        ]
        request: protocol.ScoreRequest = {"op": "score", "cases": asked, "case_timeout": case_timeout}
        return request if search is None else {**request, "search": search}

    async def _ensure(self, timeout: float) -> Loaded:
        if self.warm and self._loaded is not None:
            return self._loaded
        await self._drop()
        self._child = await self._zygote.fork()
        reply = await self._ask_loading({"op": "load", **self._environment()}, timeout, "loading")
        try:
            self._loaded = decode_loaded(reply, self._api, self._child.versions)
        except WorkerError as error:
            raise await self._broken(error) from error
        return self._loaded

    async def _ask_loading(self, request: protocol.Request, timeout: float, doing: str) -> Any:
        """Ask for something that runs the environment's `load()`. Such requests of one call share its deadline."""
        deadline = load_deadline()
        if deadline is None:
            return await self._ask(request, timeout, doing)
        started = anyio.current_time()
        try:
            return await self._ask(request, deadline.limit(timeout), doing)
        except WorkerError:
            deadline.lose(anyio.current_time() - started)
            raise

    async def _ask(self, request: protocol.Request, timeout: float, doing: str) -> Any:
        await self._tell(request)
        return (await self._hear(timeout, doing)).get("result")

    async def _tell(self, request: protocol.Request) -> None:
        assert self._child is not None
        self._number += 1
        try:
            await self._child.channel.send({"id": self._number, **request})
        except ChannelClosed:
            raise await self._fault("starting") from None
        except BaseException:
            await self._drop()
            raise

    async def _hear(self, timeout: float, doing: str) -> dict[str, Any]:
        """Receive the next reply. Before any error is raised, the child is ended."""
        assert self._child is not None
        try:
            with anyio.fail_after(timeout):
                reply = await self._child.channel.receive()
        except TimeoutError:
            ended = await self._drop()
            raise timed_out(doing, timeout, ended.output) from None
        except ChannelClosed:
            raise await self._fault(doing) from None
        except ChannelFlood:
            raise await self._broken(flooded(doing, "")) from None
        except ChannelGarbage as garbage:
            raise await self._broken(nonsense(doing, str(garbage))) from None
        except BaseException:
            await self._drop()
            raise
        if reply.get("id") != self._number:
            raise await self._broken(nonsense(doing, reply))
        if "failed" in reply:
            raise await self._failed(reply["failed"], doing)
        return reply

    async def _failed(self, failure: Any, doing: str) -> LabErrorOfChild:
        await self._drop()
        if not isinstance(failure, dict):
            return nonsense(doing, failure)
        if failure.get("type") == "MemoryError":
            return out_of_memory(doing)
        if failure.get("refused"):
            return confined(doing, str(failure["refused"]), str(failure.get("where", "")))
        failure = {k: str(failure.get(k, "")) for k in ("type", "message", "traceback", "where")}
        return LoadFailed(failure["type"], failure["message"], failure["traceback"], failure["where"], doing)

    async def _fault(self, doing: str) -> WorkerError:
        ended = await self._drop(_PATIENCE)
        if ended.flood:
            return flooded(doing, ended.output)
        if ended.signal == SIGKILL:
            return out_of_memory(doing)
        return exited(doing, ended)

    async def _broken(self, error: WorkerError) -> WorkerError:
        await self._drop()
        return error

    async def _drop(self, patience: float = 0.0) -> Ended:
        child, self._child, self._loaded, self._scored = self._child, None, None, False
        return await child.close(patience) if child is not None else Ended(None, None, False, "")

    async def close(self) -> None:
        """End the child and all its descendants."""
        await self._drop()


LabErrorOfChild = WorkerError | LoadFailed


def _dicts(messages: Sequence[Message]) -> protocol.Messages:
    return [dict(m) for m in messages]
