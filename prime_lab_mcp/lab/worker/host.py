"""A worker: the server's handle on one environment that is loaded in a child process.

If the child hangs, dies or writes too much output, it is killed with all its descendants, and the call raises an error
or reports a problem. The next request starts a new child. The server's process never runs environment code.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.load_deadline import load_deadline
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.sandbox.caches import DataCache
from prime_lab_mcp.lab.sandbox.containers.access import (
    ContainerAccess,
    container_broker,
    podman_is_installed,
    write_client,
)
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
    CONTAINER_ROLLOUT_SECONDS,
    SERVING,
    SPENT_MS,
    Case,
    CaseError,
    Component,
    LocatedTasks,
    Observed,
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

_MOST_FAULTS = 5
"""Number of cases of one call that may end their child. After that, the remaining cases are reported as not run."""
_GRACE = 2.0
"""Seconds that the child gets for a reply in addition to the time limit of the case."""
_FIRST_GRACE = 8.0
"""The same for the first case of a child, in which rewards import modules."""
_MOST_CONTAINERS = 16
"""Most containers of a worker's rollouts at the same time."""
_EXIT_SECONDS = 5.0
"""Seconds that a child gets to end after it has closed its socket."""
_LAST_SCORING = 15.0
"""Seconds for the scoring after the last rollout."""


@dataclass(frozen=True, slots=True)
class SiblingWorkers:
    """Functions that open further workers for the same environment, each in another process."""

    open: Callable[..., AbstractAsyncContextManager[Worker]]
    """Opens another worker. With `hash_seed`, the worker needs another zygote, which has to import verifiers first."""
    warm: Callable[[], Awaitable[None]]
    """Starts a zygote with another hash seed, so that a later `open` with `hash_seed` is fast."""


class Worker:
    """One environment.

    The first call loads the environment in a child process. Concurrent calls wait for each other.
    """

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
        self._broker: ContainerAccess | None = None
        self.rollouts_played = 0
        """Number of rollouts of scripted models that this worker has played for all its users."""
        self._closing: AsyncExitStack | None = None
        self.siblings: SiblingWorkers | None = None
        self.cache: DataCache | None = None
        self.confinement: Confinement | None = None
        """What the environment's code may access besides its scratch folder; None if the child is not confined."""

    @property
    def warm(self) -> bool:
        """Whether a child is alive and has loaded the environment."""
        return self._child is not None and self._loaded is not None and self._child.alive

    async def load(self, *, timeout: float = 60) -> Loaded:
        """Load the environment unless it is already loaded. Raises LoadFailed, WorkerError or InterpreterError."""
        async with self._lock:
            return await self._ensure_loaded(timeout)

    async def rows(
        self, *, limit: int, seed: int = 0, split: str | None = None, after: int | None = None, timeout: float = 60
    ) -> Rows:
        """Return a seeded sample of at most `limit` tasks, or the first tasks of an infinite or uncounted taskset.

        Of such a taskset, `after` asks for a seeded sample of the tasks that follow so many first ones.

        `split` is `train` or `eval`. A v1 taskset selects its split by `env_args`. For v1, `eval` returns tasks of the
        split that is not loaded, and no tasks if the config has no field for the split.
        """
        async with self._lock:
            await self._ensure_loaded(timeout)
            asked: protocol.RowsRequest = {"op": "rows", "limit": limit, "seed": seed, "split": split, "after": after}
            rows = decode_rows(await self._request_loading(asked, timeout, "listing its tasks"))
            if split is None:
                self._keys.update((row.index, row.key) for row in rows.rows)
            return rows

    async def facts(self, *, timeout: float = 60) -> Traits:
        """Return the description of the loaded environment beyond its rewards and rows."""
        async with self._lock:
            await self._ensure_loaded(timeout)
            return decode_traits(await self._request_loading({"op": "facts"}, timeout, "describing itself"))

    async def serve(
        self, cases: Sequence[tuple[Mapping[str, Any], Case]], *, case_timeout: float = 5, timeout: float = 60
    ) -> list[Scored]:
        """Score completions in the same way as the env server of a v1 training run.

        Each case is a pair of the data of its task, as the trainer sends it, and the completion. A new child rebuilds
        the tasks from their data, never calls `load()`, and ends afterwards. Raises LoadFailed if a task cannot be
        rebuilt.
        """
        async with self._lock:
            await self._end_child()
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
            reply = await self._request(request, timeout, "scoring rebuilt tasks")
            await self._end_child()
            if not isinstance(reply, list) or len(reply) != len(cases):
                raise nonsense("serve", reply)
            return [decode_scored(scored, case.id) for scored, (_, case) in zip(reply, cases, strict=True)]

    async def task_data(self, rows: Sequence[int], *, timeout: float = 60) -> list[dict[str, Any] | None]:
        """Return the data of v1 tasks as the trainer sends them; None for data that cannot be sent."""
        async with self._lock:
            await self._ensure_loaded(timeout)
            reply = await self._request({"op": "task-data", "rows": list(rows)}, timeout, "reading the data of tasks")
            if not isinstance(reply, list) or len(reply) != len(rows):
                raise nonsense("task-data", reply)
            return [dict(data) if isinstance(data, dict) else None for data in reply]

    async def serve_rollouts(
        self, data: Sequence[Mapping[str, Any]], requested: Sequence[RequestedRollout], *, seconds: float
    ) -> Rollouts:
        """Run whole rollouts as `rollout` does with `held`, in the same way as the env server of a v1 training run.

        The row of a rollout is the place of its task in `data`. A new child rebuilds the tasks from their data, never
        calls `load()`, and ends afterwards.
        """
        async with self._lock:
            await self._end_child()
            self._child = await self._zygote.fork()
            request: protocol.ServedRolloutsRequest = {
                "op": "serve-rollouts",
                **self._environment(),
                "data": list(map(dict, data)),
                "rollouts": rollouts_request(requested, seconds, 5, in_order=True, held=True),
            }
            reply = await self._request(request, seconds + SERVING + _LAST_SCORING, "running rollouts of rebuilt tasks")
            await self._end_child()
            return decode_rollouts(reply)

    async def measure_side_effects(
        self, cases: Sequence[tuple[Case, bool]], *, case_timeout: float = 5
    ) -> list[SideEffects]:
        """Measure side effects of scoring: mutated inputs, a blocked event loop, and rewards under concurrency.

        Each case is a pair of the completion and whether it is also scored concurrently. Pass only cases whose scoring
        has not ended its process before. Raises LoadFailed or WorkerError if the process ends here.
        """
        asked: list[protocol.SideEffectsCase] = [
            {"row": case.row, "messages": _dicts(case.messages), "concurrent": among} for case, among in cases
        ]
        async with self._lock:
            await self._ensure_loaded(60)
            request: protocol.SideEffectsRequest = {"op": "side-effects", "cases": asked, "case_timeout": case_timeout}
            reply = await self._request(request, 60, "scoring several completions at once")
            return decode_side_effects(reply, [case for case, _ in cases])

    async def rollout(
        self,
        requested: Sequence[RequestedRollout],
        *,
        seconds: float,
        case_timeout: float = 5,
        in_order: bool = False,
        held: bool = False,
        observed: Observed = "",
    ) -> Rollouts:
        """Run whole rollouts with a scripted model through the environment's own loop, tools and hooks.

        Rollouts that have not begun after `seconds` are not run. With `in_order`, they run one after the other. With
        `held`, each of them also begins with the same state of every random generator. With `observed`, rollouts of a
        few turns run one after the other or take turns. Raises LoadFailed or WorkerError if the environment hangs or
        ends its process.
        """
        async with self._lock:
            loaded = await self._ensure_loaded(60)
            containers = await self._containers() if loaded.container else {}
            limit = seconds + (SERVING if self._api == "v1" else 0) + _LAST_SCORING
            limit += CONTAINER_ROLLOUT_SECONDS if containers else 0
            request = rollouts_request(requested, seconds, case_timeout, in_order, held, containers, observed)
            rollouts = decode_rollouts(await self._request(request, limit, "running whole rollouts"))
            self.rollouts_played += sum(result.end != "not-run" for result in rollouts.results)
            return rollouts

    async def _containers(self) -> dict[str, str]:
        """Return the environment variables with which the child runs containers; empty if this machine runs none.

        The broker of containers lives as long as this worker.
        """
        if self._broker is None:
            if not podman_is_installed():
                return {}
            stack = AsyncExitStack()
            try:
                broker = container_broker(f"worker-{secrets.token_hex(8)}", most=_MOST_CONTAINERS, seconds=3600.0)
                self._broker = await stack.enter_async_context(broker)
            except LabError:
                return {}
            self._closing = stack
        assert self._child is not None
        programs = self._child.scratch / "programs"
        write_client(programs, self._zygote.interpreter.python)
        return {**self._broker.variables, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    @asynccontextmanager
    async def in_another_process(self, hash_seed: int | None = None) -> AsyncIterator[Worker]:
        """Open a worker for the same environment in another process, with another hash seed if `hash_seed` is given.

        A case whose task differs in that process gets the problem `TASK_CHANGED`.
        """
        assert self.siblings is not None
        async with self.siblings.open(hash_seed=hash_seed) as other:
            other._keys.update(self._keys)
            yield other

    def witness(self, last_row: int, left_out: frozenset[str] = frozenset()) -> AbstractAsyncContextManager[Witness]:
        """Open a witness for the same environment. The witness loads the environment in the background.

        `last_row` is the largest row of the cases that the witness will score. `left_out` are files of the
        environment's folder that are missing in an installation of the package.
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
        """Score completions with the environment's own scoring, in order. Times are in seconds.

        If a reward fails, hangs or ends the process, the result of the case has a problem, and a new child scores the
        following cases. Raises LoadFailed, or WorkerError if all cases together exceed `timeout` (default: the sum of
        their limits and 120 seconds). `search` is the number of a search for reward holes; with it, each result names
        the branches of the environment's code that its case was the first to take.
        """
        limit = timeout if timeout is not None else 120 + len(cases) * (case_timeout + 1)
        async with self._lock:
            try:
                with anyio.fail_after(limit):
                    return await self._score_all(cases, case_timeout, search)
            except TimeoutError:
                await self._end_child()
                raise timed_out("scoring all cases", limit, "") from None

    async def solutions(self, rows: Sequence[int], *, seconds: float) -> StatedSolutions:
        """Return the reference solutions of some tasks, without playing them. Takes at most about `seconds`."""
        async with self._lock:
            await self._ensure_loaded(60)
            request: protocol.StatedRequest = {"op": "solutions", "rows": list(rows), "seconds": seconds}
            reply = await self._request(request, seconds + _LAST_SCORING, "reading the solutions of tasks")
            return decode_stated(rows, reply)

    async def locate(self, wanted: WantedTasks, *, timeout: float = 180) -> LocatedTasks:
        """Find the tasks of stored rollouts among the environment's tasks."""
        async with self._lock:
            await self._ensure_loaded(60)
            return decode_located(
                await self._request(wanted.request(), timeout, "looking for the tasks of stored rollouts")
            )

    async def rescore(self, asked: Sequence[StoredRollout], *, case_timeout: float = 30) -> list[Scored]:
        """Score rollouts that an earlier evaluation stored, in order.

        Failures are reported in the same way as by `score`.
        """
        async with self._lock:
            return await self._score_all(asked, case_timeout)

    async def _score_all(
        self, cases: Sequence[Case | StoredRollout], case_timeout: float, search: int | None = None
    ) -> list[Scored]:
        done: list[Scored] = []
        faults = 0
        while len(done) < len(cases):
            await self._ensure_loaded(60)
            try:
                # The first case of a process may take longer, because rewards import modules then.
                grace = _GRACE if done or self._scored else _FIRST_GRACE
                await self._score_some(cases, done, case_timeout, grace, search)
            except WorkerError as error:
                if error.code not in PROBLEMS:
                    raise
                case = cases[len(done)]
                error_of_case = CaseError(error.code, error.message, "")
                done.append(Scored(case.id, None, errors=(error_of_case,), problems=(Problem(PROBLEMS[error.code]),)))
                faults += 1
                if faults >= _MOST_FAULTS:
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
        await self._send(self._scoring(rest, case_timeout, search))
        for number in range(len(rest)):
            reply = await self._receive(case_timeout + grace, "scoring a case")
            if reply.get("case") != number:
                raise await self._end_with(nonsense("score", reply))
            try:
                done.append(decode_scored(reply["result"], cases[len(done)].id))
                self._scored = True
            except WorkerError as error:
                raise await self._end_with(error) from error
            grace = _GRACE
        await self._receive(_GRACE, "scoring")

    def _scoring(
        self, cases: Sequence[Case | StoredRollout], case_timeout: float, search: int | None
    ) -> protocol.ScoreRequest | protocol.RescoreRequest:
        """Build the request for cases, which are either all completions or all stored rollouts."""
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
        asked = [self._case_request(case) for case in cases if isinstance(case, Case)]
        request: protocol.ScoreRequest = {"op": "score", "cases": asked, "case_timeout": case_timeout}
        return request if search is None else {**request, "search": search}

    def _case_request(self, case: Case) -> protocol.CaseRequest:
        request: protocol.CaseRequest = {
            "row": case.row,
            "key": self._keys.get(case.row),
            "messages": _dicts(case.messages),
            "rest_of_group": [_dicts(other) for other in case.rest_of_group],
        }
        return request if case.verdict is None else {**request, "verdict": case.verdict}

    async def _ensure_loaded(self, timeout: float) -> Loaded:
        if self.warm and self._loaded is not None:
            return self._loaded
        await self._end_child()
        self._child = await self._zygote.fork()
        reply = await self._request_loading({"op": "load", **self._environment()}, timeout, "loading")
        try:
            self._loaded = decode_loaded(reply, self._api, self._child.versions)
        except WorkerError as error:
            raise await self._end_with(error) from error
        return self._loaded

    async def _request_loading(self, request: protocol.Request, timeout: float, doing: str) -> Any:
        """Send a request that runs the environment's `load()`. All such requests of one tool call share a deadline."""
        deadline = load_deadline()
        if deadline is None:
            return await self._request(request, timeout, doing)
        started = anyio.current_time()
        try:
            return await self._request(request, deadline.limit(timeout), doing)
        except WorkerError:
            deadline.lose(anyio.current_time() - started)
            raise

    async def _request(self, request: protocol.Request, timeout: float, doing: str) -> Any:
        await self._send(request)
        return (await self._receive(timeout, doing)).get("result")

    async def _send(self, request: protocol.Request) -> None:
        assert self._child is not None
        self._number += 1
        try:
            await self._child.channel.send({"id": self._number, **request})
        except ChannelClosed:
            raise await self._error_of_end("starting") from None
        except BaseException:
            await self._end_child()
            raise

    async def _receive(self, timeout: float, doing: str) -> dict[str, Any]:
        """Receive the next reply. Ends the child before it raises an error."""
        assert self._child is not None
        try:
            with anyio.fail_after(timeout):
                reply = await self._child.channel.receive()
        except TimeoutError:
            ended = await self._end_child()
            raise timed_out(doing, timeout, ended.output) from None
        except ChannelClosed:
            raise await self._error_of_end(doing) from None
        except ChannelFlood:
            raise await self._end_with(flooded(doing, "")) from None
        except ChannelGarbage as garbage:
            raise await self._end_with(nonsense(doing, str(garbage))) from None
        except BaseException:
            await self._end_child()
            raise
        if reply.get("id") != self._number:
            raise await self._end_with(nonsense(doing, reply))
        if "failed" in reply:
            raise await self._error_of_failure(reply["failed"], doing)
        return reply

    async def _error_of_failure(self, failure: Any, doing: str) -> LabErrorOfChild:
        await self._end_child()
        if not isinstance(failure, dict):
            return nonsense(doing, failure)
        if failure.get("type") == "MemoryError":
            return out_of_memory(doing)
        if failure.get("refused"):
            return confined(doing, str(failure["refused"]), str(failure.get("where", "")))
        failure = {k: str(failure.get(k, "")) for k in ("type", "message", "traceback", "where")}
        return LoadFailed(failure["type"], failure["message"], failure["traceback"], failure["where"], doing)

    async def _error_of_end(self, doing: str) -> WorkerError:
        ended = await self._end_child(_EXIT_SECONDS)
        if ended.flood:
            return flooded(doing, ended.output)
        if ended.signal == SIGKILL:
            return out_of_memory(doing)
        return exited(doing, ended)

    async def _end_with(self, error: WorkerError) -> WorkerError:
        await self._end_child()
        return error

    async def _end_child(self, patience: float = 0.0) -> Ended:
        child, self._child, self._loaded, self._scored = self._child, None, None, False
        return await child.close(patience) if child is not None else Ended(None, None, False, "")

    async def close(self) -> None:
        """End the child and all its descendants, and remove its containers."""
        await self._end_child()
        closing, self._closing, self._broker = self._closing, None, None
        if closing is not None:
            await closing.aclose()


LabErrorOfChild = WorkerError | LoadFailed


def _dicts(messages: Sequence[Message]) -> protocol.Messages:
    return [dict(m) for m in messages]
