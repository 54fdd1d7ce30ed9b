"""One attempt at a job, from its first request to what is written about its end. A resumed job has several."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.evals import program
from prime_lab_mcp.lab.evals.ending import Ending, half_written, memory_kills, of_code, rollout_errors, unreachable
from prime_lab_mcp.lab.evals.guard import GRACE, take
from prime_lab_mcp.lab.evals.progress import Tally
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.upstream import Patience
from prime_lab_mcp.lab.ledger import Ledger

__all__ = ["LEASE", "Attempt", "Ending", "file_sha256"]

LEASE = 20.0
"""Seconds a lease lasts; renewed every `_BEAT`."""
_BEAT = 0.5
_WRITE = 2.0
_TAIL = 64 * 1024
_ALONE = 30.0
"""Seconds that the attempt before this one has to end: longer than its guard waits."""


class Attempt:
    """`run` plays the rollouts that are missing; `finish` writes how it ended."""

    def __init__(
        self, id: str, spec: EvalSpec, files: program.JobFiles, ledger: Ledger, deadline: float, allow: tuple[str, ...]
    ) -> None:
        self.id = id
        self.spec = spec
        self.files = files
        self.ledger = ledger
        self.deadline = deadline
        self.allow = allow
        self.tally = Tally(spec)
        self.relay: Any = None
        self.stopping: Ending | None = None
        self.half_written = 0
        self._written: dict[str, Any] = {}
        self._spent = {"prompt_tokens": 0, "completion_tokens": 0, "requests": 0}

    async def run(self, key: str | None) -> Ending:
        from prime_lab_mcp.lab.evals.relay import Cap, Relay

        for folder in (self.files.home, self.files.work, self.files.output):
            folder.mkdir(parents=True, exist_ok=True)
        if not await self._alone():
            return Ending("crashed", "the attempt before this one still ends", "eval-busy")
        self._carry_over()
        cap = Cap(self.spec.max_total_tokens, self.spec.max_cost, self.spec.price)
        self.relay = Relay(self.spec.endpoint, key, cap, Patience())
        async with self.relay.serving():
            argv = program.command(self.spec, self.files, self.relay.url)
            env = program.environment(self.spec, self.files, self.relay.url, self.relay.secret, self.allow)
            return await self._watch(program.ours("evals.guard", str(self.files.lock), *argv), env)

    async def _alone(self) -> bool:
        """Wait until nothing of an attempt before this one writes any more."""
        with anyio.move_on_after(_ALONE):
            while True:
                held = take(self.files.lock)
                if held is not None:
                    os.close(held)
                    return True
                self._beaten()
                await anyio.sleep(_BEAT / 2)
        return False

    async def _watch(self, argv: list[str], env: Mapping[str, str]) -> Ending:
        null = os.open(os.devnull, os.O_WRONLY)
        theirs, alive = os.pipe()
        kills = memory_kills()
        try:
            # Standard output repeats every trace as JSON; the results file has them already.
            child = await process.spawn(argv, cwd=self.files.work, env=env, stdin=theirs, stdout=null)
        finally:
            os.close(null)
            os.close(theirs)
        tail = bytearray()
        async with child, anyio.create_task_group() as tasks:
            assert child.process.stderr is not None
            drained = anyio.Event()
            tasks.start_soon(_drain, child.process.stderr, tail, drained)
            tasks.start_soon(self._hear_signals)
            tasks.start_soon(self._beat)
            with anyio.move_on_after(max(0.0, self.deadline - time.time())) as limit:
                code = await self._until_end(child)
            if limit.cancelled_caught:
                self.stopping = Ending("stopped", "it reached its deadline", "eval-deadline")
            os.close(alive)
            if self.stopping:
                with anyio.move_on_after(GRACE + 6.0):
                    await child.process.wait()
            with anyio.move_on_after(1.0):
                await drained.wait()
            tasks.cancel_scope.cancel()
        with suppress(OSError):
            self.files.errors.write_bytes(bytes(tail))
        if self.stopping:
            return self.stopping
        self.tally.count(self.files.results())
        errors = tail.decode("utf-8", "replace")
        return of_code(code, errors, self.files.root, kills) or self._whole()

    async def _until_end(self, child: process.Child) -> int:
        while not self.stopping:
            with anyio.move_on_after(_BEAT / 2):
                return await child.process.wait()
            kind = self.relay.usage.streak.given_up(anyio.current_time())
            if kind is not None:
                self.stopping = unreachable(kind, self.spec.endpoint.host, self.relay.usage)
        return 0

    def _whole(self) -> Ending:
        """It ended well; whether every rollout is there is another question."""
        if self.tally.rollouts == 0:
            return Ending("crashed", "vf-eval ended without a single rollout", "eval-incomplete")
        wanted = self.planned()
        if self.tally.rollouts < wanted:
            told = f"vf-eval ended as if it were done, with {self.tally.rollouts} of {wanted} rollouts"
            return Ending("crashed", told, "eval-incomplete")
        return Ending("finished")

    def planned(self) -> int:
        """Rollouts that a complete run has. v0 says so itself: it may evaluate another table than the one counted."""
        if self.spec.api == "v0":
            with suppress(OSError, ValueError, KeyError):
                return int(json.loads(self.files.planned.read_text(encoding="utf-8"))["rollouts"])
            return 0
        return self.spec.planned if self.spec.tasks is not None else 0

    async def _hear_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as heard:
            async for number in heard:
                if number != signal.SIGHUP:
                    self.stopping = Ending("stopped", "it was stopped", "eval-stopped")

    async def _beat(self) -> None:
        renewed = 0.0
        while True:
            self.tally.follow(self.files.results())
            progress = self.progress()
            now = time.time()
            if now - renewed > _WRITE or (progress != self._written and now - renewed > _BEAT):
                self._beaten(progress=progress)
                renewed, self._written = now, progress
            await anyio.sleep(_BEAT)

    def _beaten(self, **changes: Any) -> None:
        """Renew the lease. A full disk keeps the ledger from being written; `vf-eval` meets it next."""
        with suppress(sqlite3.OperationalError):
            self.ledger.update_job(self.id, lease=time.time() + LEASE, **changes)

    def progress(self) -> dict[str, Any]:
        """What the job has done so far, in the form that readers of the ledger rely on."""
        shown = self.tally.as_json()
        if self.spec.api == "v0":
            shown["planned"] = self.planned() or shown["planned"]
        if self.half_written:
            shown["half_written"] = self.half_written
        if self.relay is not None:
            shown |= self.relay.usage.as_json()
            for name, before in self._spent.items():
                shown[name] += before
            if self.spec.price is not None:
                shown["cost"] = self.spec.price.of(shown["prompt_tokens"], shown["completion_tokens"])
        return shown

    def finish(self, ending: Ending) -> None:
        """Write how it ended. The hash covers exactly the bytes that are judged later."""
        found = self.files.results()
        self.tally.count(found)
        progress = self.progress() | {"reason": ending.reason, "cause": ending.cause}
        if found is not None:
            progress["results"] = str(found.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(found)
            progress["rollout_errors"] = rollout_errors(found) if self.tally.errors else []
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())

    def _carry_over(self) -> None:
        """What runs of the same job before this one paid for, and left half-written."""
        job = self.ledger.job(self.id)
        for name in self._spent:
            self._spent[name] = int((job.progress if job else {}).get(name) or 0)
        found = self.files.results()
        self.half_written = half_written(found) if found is not None else 0


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


async def _drain(stream: ByteReceiveStream, tail: bytearray, drained: anyio.Event) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for chunk in stream:
            tail += chunk
            del tail[:-_TAIL]
    drained.set()
