"""Runs environment code for the server: one environment, loaded in a child process.

What hangs, dies or floods is killed with everything below it, reported, and replaced by a fresh child
on the next request. Nothing here ever runs environment code in the server's process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.errors import WorkerError
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.worker import kept, rolled
from prime_lab_mcp.lab.worker.cases import (
    Case,
    CaseError,
    Component,
    Loaded,
    LoadFailed,
    Manner,
    RewardInfo,
    Row,
    Rows,
    Scored,
    Traits,
)
from prime_lab_mcp.lab.worker.channel import ChannelClosed, ChannelFlood, ChannelGarbage
from prime_lab_mcp.lab.worker.decoding import (
    decode_loaded,
    decode_manners,
    decode_rows,
    decode_scored,
    decode_traits,
    nonsense,
)
from prime_lab_mcp.lab.worker.faults import PROBLEMS, SIGKILL, exited, flooded, out_of_memory, timed_out
from prime_lab_mcp.lab.worker.zygote import Ended, Seat, Zygote

__all__ = [
    "Case", "CaseError", "Component", "LoadFailed", "Loaded", "RewardInfo", "Row", "Rows", "Scored", "Worker",
]  # fmt: skip

_FAULTS = 5
"""Cases that may kill their child in one call; what is left then is reported as not run."""
_GRACE = 2.0
_FIRST_GRACE = 8.0
_PATIENCE = 0.5
_LATE = 15.0
"""Seconds for what is scored after the last rollout."""


@dataclass(frozen=True, slots=True)
class Twin:
    """How to open the same environment in another process, and how to begin starting one with another hash seed."""

    open: Callable[..., AbstractAsyncContextManager[Worker]]
    """With `hash_seed` for a process whose strings hash otherwise: that takes an import of verifiers."""
    warm: Callable[[], Awaitable[None]]


class Worker:
    """One environment, loaded in a child when first needed. One call at a time."""

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
        self._seat: Seat | None = None
        self._loaded: Loaded | None = None
        self._scored = False
        self._keys: dict[int, str] = {}
        self._lock = anyio.Lock()
        self._number = 0
        self.twin: Twin | None = None

    @property
    def warm(self) -> bool:
        return self._seat is not None and self._loaded is not None and self._seat.alive

    async def load(self, *, timeout: float = 60) -> Loaded:
        """Import and load the environment, unless that is done. Raises LoadFailed, WorkerError, InterpreterError."""
        async with self._lock:
            return await self._ensure(timeout)

    async def rows(self, *, limit: int, seed: int = 0, split: str | None = None, timeout: float = 60) -> Rows:
        """A seeded sample of at most `limit` tasks; of an infinite taskset, its first ones.

        `split` is `train` or `eval`. A v1 taskset chooses its split by `env_args`; `eval` then lists the split that is
        not loaded, and nothing where its config has no field for that.
        """
        async with self._lock:
            await self._ensure(timeout)
            asked = {"op": "rows", "limit": limit, "seed": seed, "split": split}
            found = decode_rows(await self._ask(asked, timeout, "listing its tasks"))
            if split is None:
                self._keys.update((row.index, row.key) for row in found.rows)
            return found

    async def facts(self, *, timeout: float = 60) -> Traits:
        """What the loaded environment tells about itself beyond rewards and rows."""
        async with self._lock:
            await self._ensure(timeout)
            return decode_traits(await self._ask({"op": "facts"}, timeout, "describing itself"))

    async def serve(
        self, cases: Sequence[tuple[Mapping[str, Any], Case]], *, case_timeout: float = 5, timeout: float = 60
    ) -> list[Scored]:
        """Score completions as the env server of a v1 training run does (data of the task as sent, and the case).

        The tasks are rebuilt from their data in a fresh child that never calls `load()`; it ends afterwards. Raises
        LoadFailed when a task cannot be rebuilt.
        """
        async with self._lock:
            await self._drop()
            self._seat = await self._zygote.fork()
            asked = [{"data": dict(data), "messages": [dict(m) for m in case.messages]} for data, case in cases]
            request = {**self._request("serve"), "cases": asked, "case_timeout": case_timeout}
            reply = await self._ask(request, timeout, "scoring rebuilt tasks")
            await self._drop()
            if not isinstance(reply, list) or len(reply) != len(cases):
                raise nonsense("serve", reply)
            return [decode_scored(told, case) for told, (_, case) in zip(reply, cases, strict=True)]

    async def together(self, cases: Sequence[tuple[Case, bool]], *, case_timeout: float = 5) -> list[Manner]:
        """How scoring behaves: inputs that it changes, the event loop, and what those marked true earn all at once.

        For cases that are known to be scored without breaking their process. Raises LoadFailed or WorkerError when
        that does not hold here.
        """
        asked = [
            {"row": case.row, "messages": [dict(m) for m in case.messages], "together": among} for case, among in cases
        ]
        async with self._lock:
            await self._ensure(60)
            request = {"op": "together", "cases": asked, "case_timeout": case_timeout}
            reply = await self._ask(request, 60, "scoring several completions at once")
            return decode_manners(reply, [case for case, _ in cases])

    async def rollout(
        self, plays: Sequence[rolled.Play], *, seconds: float, case_timeout: float = 5
    ) -> rolled.Rollouts:
        """Whole rollouts with a scripted model, through the environment's own loop, tools and hooks.

        What has not begun after `seconds` is not run. Raises LoadFailed or WorkerError when the environment hangs or
        ends its process there.
        """
        async with self._lock:
            await self._ensure(60)
            limit = seconds + (rolled.SERVING if self._api == "v1" else 0) + _LATE
            request = rolled.request(plays, seconds, case_timeout)
            return rolled.decode(await self._ask(request, limit, "running whole rollouts"))

    @asynccontextmanager
    async def elsewhere(self, hash_seed: int | None = None) -> AsyncIterator[Worker]:
        """The same environment, loaded anew in a process of its own. A task that differs there is told."""
        assert self.twin is not None
        async with self.twin.open(hash_seed=hash_seed) as other:
            other._keys.update(self._keys)
            yield other

    def _request(self, op: str) -> dict[str, Any]:
        assert self._seat is not None
        return {
            "op": op,
            "tree": str(self._tree),
            "module": self._module,
            "env_args": self._env_args,
            "hidden": self._hidden,
            "variables": self._variables,
            "scratch": str(self._seat.scratch),
        }

    async def score(
        self, cases: Sequence[Case], *, case_timeout: float = 5, timeout: float | None = None
    ) -> list[Scored]:
        """Score completions through the environment's own path, in order.

        What a reward does wrong is in the result of its case, hanging and ending the process included; the cases
        after it are scored by a fresh child. Raises LoadFailed, or WorkerError when all together exceed `timeout`
        (default: what the cases may take).
        """
        limit = timeout if timeout is not None else 120 + len(cases) * (case_timeout + 1)
        async with self._lock:
            try:
                with anyio.fail_after(limit):
                    return await self._score_all(cases, case_timeout)
            except TimeoutError:
                await self._drop()
                raise timed_out("scoring all cases", limit, "") from None

    async def locate(self, wanted: kept.Wanted, *, timeout: float = 180) -> kept.Located:
        """Where the tasks of stored rollouts are in the present taskset."""
        async with self._lock:
            await self._ensure(60)
            return kept.decode(await self._ask(wanted.request(), timeout, "looking for the tasks of stored rollouts"))

    async def rescore(self, asked: Sequence[kept.Kept], *, case_timeout: float = 30) -> list[Scored]:
        """Score rollouts that an earlier evaluation stored, in order; faults are told as by `score`."""
        async with self._lock:
            return await self._score_all(asked, case_timeout)

    async def _score_all(self, cases: Sequence[Case | kept.Kept], case_timeout: float) -> list[Scored]:
        done: list[Scored] = []
        faults = 0
        while len(done) < len(cases):
            await self._ensure(60)
            try:
                # Only the very first case of a process may import what rewards import late.
                grace = _GRACE if done or self._scored else _FIRST_GRACE
                await self._score_some(cases, done, case_timeout, grace)
            except WorkerError as error:
                if error.code not in PROBLEMS:
                    raise
                case = cases[len(done)]
                told = CaseError(error.code, error.message, "")
                done.append(Scored(case.id, None, errors=(told,), problems=(PROBLEMS[error.code],)))
                faults += 1
                if faults >= _FAULTS:
                    told = CaseError("not-run", f"{faults} earlier cases ended their process", "")
                    done += [Scored(c.id, None, errors=(told,), problems=("not-run",)) for c in cases[len(done) :]]
        return done

    async def _score_some(
        self, cases: Sequence[Case | kept.Kept], done: list[Scored], case_timeout: float, grace: float
    ) -> None:
        asked = [self._asked(c) for c in cases[len(done) :]]
        op = kept.SCORING if isinstance(cases[0], kept.Kept) else {"op": "score"}
        await self._tell({**op, "cases": asked, "case_timeout": case_timeout, **getattr(cases[0], "manner", {})})
        for number in range(len(asked)):
            reply = await self._hear(case_timeout + grace, "scoring a case")
            if reply.get("case") != number:
                raise await self._broken(nonsense("score", reply))
            try:
                done.append(decode_scored(reply.get("result"), cases[len(done)]))
                self._scored = True
            except WorkerError as error:
                raise await self._broken(error) from error
            grace = _GRACE
        await self._hear(_GRACE, "scoring")

    def _asked(self, case: Case | kept.Kept) -> dict[str, Any]:
        if isinstance(case, kept.Kept):
            return case.asked()
        return {
            "row": case.row,
            "key": self._keys.get(case.row),
            "messages": [dict(m) for m in case.messages],
            "company": [[dict(m) for m in other] for other in case.company],
        }

    async def _ensure(self, timeout: float) -> Loaded:
        if self.warm and self._loaded is not None:
            return self._loaded
        await self._drop()
        self._seat = await self._zygote.fork()
        reply = await self._ask(self._request("load"), timeout, "loading")
        try:
            self._loaded = decode_loaded(reply, self._api, self._seat.versions)
        except WorkerError as error:
            raise await self._broken(error) from error
        return self._loaded

    async def _ask(self, request: dict[str, Any], timeout: float, doing: str) -> Any:
        await self._tell(request)
        return (await self._hear(timeout, doing)).get("result")

    async def _tell(self, request: dict[str, Any]) -> None:
        assert self._seat is not None
        self._number += 1
        try:
            await self._seat.channel.send({"id": self._number, **request})
        except ChannelClosed:
            raise await self._fault("starting") from None
        except BaseException:
            await self._drop()
            raise

    async def _hear(self, timeout: float, doing: str) -> dict[str, Any]:
        """The next reply. Whatever goes wrong ends the child first."""
        assert self._seat is not None
        try:
            with anyio.fail_after(timeout):
                reply = await self._seat.channel.receive()
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

    async def _failed(self, told: Any, doing: str) -> LabErrorOfChild:
        await self._drop()
        if not isinstance(told, dict):
            return nonsense(doing, told)
        if told.get("type") == "MemoryError":
            return out_of_memory(doing)
        told = {k: str(told.get(k, "")) for k in ("type", "message", "traceback", "where")}
        return LoadFailed(told["type"], told["message"], told["traceback"], told["where"], doing)

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
        seat, self._seat, self._loaded, self._scored = self._seat, None, None, False
        return await seat.close(patience) if seat is not None else Ended(None, None, False, "")

    async def close(self) -> None:
        """End the child and everything it started."""
        await self._drop()


LabErrorOfChild = WorkerError | LoadFailed
