"""The process of one evaluation job: relay, `vf-eval`, deadline, lease. Started detached; outlives the server.

`python -m prime_lab_mcp.lab.evals.supervisor JOBDIR`, with the endpoint's key in one inherited variable that is wiped
from this process's memory at once. Everything it learns goes to the job's row of the ledger.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import ByteReceiveStream

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals import program
from prime_lab_mcp.lab.evals.guard import GRACE
from prime_lab_mcp.lab.evals.progress import Tally
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.ledger import Ledger
from prime_lab_mcp.lab.text import quote

UPSTREAM_KEY = "PRIME_LAB_UPSTREAM_KEY"
LEASE = 20.0
"""Seconds a lease lasts; renewed every `_BEAT`."""
_BEAT = 0.5
_WRITE = 2.0
_TAIL = 64 * 1024
_NOT_DUMPABLE = 4
_FRAME = " │╭╮╰╯─"
"""vf-eval draws boxes around its messages about a config."""

State = Literal["finished", "stopped", "crashed"]


@dataclass(frozen=True, slots=True)
class Ending:
    state: State
    reason: str | None = None


def main(argv: list[str]) -> int:
    """Run the job in the folder `argv[0]` to its end."""
    key = take_key()
    files = program.JobFiles(Path(argv[0]))
    told = json.loads(files.spec.read_text(encoding="utf-8"))
    ledger = Ledger(Path(told["ledger"]))
    try:
        anyio.run(_supervise, told, files, ledger, key)
    finally:
        ledger.close()
    return 0


def take_key() -> str | None:
    """The endpoint's key, removed from the environment and from what /proc shows of it."""
    key = os.environ.pop(UPSTREAM_KEY, None)
    if sys.platform == "linux":
        _wipe_initial_environment(UPSTREAM_KEY)
        # Processes of the same user cannot read the memory of a process that may not be dumped.
        ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
    return key or None


def _wipe_initial_environment(name: str) -> None:
    """Overwrite the variable in the block that the kernel copied to the stack: `unsetenv` only drops the pointer."""
    try:
        block = Path("/proc/self/environ").read_bytes()
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start = int(fields[47])  # env_start, field 50 of proc(5)
    except (OSError, ValueError, IndexError):
        return
    at = block.find(f"{name}=".encode())
    if start and at >= 0:
        end = block.find(b"\0", at)
        ctypes.memset(start + at, 0, (end if end > at else len(block)) - at)


async def _supervise(told: Mapping[str, Any], files: program.JobFiles, ledger: Ledger, key: str | None) -> None:
    id = str(told["id"])
    spec = EvalSpec.from_json(told["spec"])
    job = _Job(id, spec, files, ledger, float(told["deadline"]), tuple(told["allow_env"]))
    ledger.update_job(id, pid=os.getpid(), state="running", lease=time.time() + LEASE)
    try:
        ending = await job.run(key)
    except LabError as error:
        ending = Ending("crashed", error.message)
    except Exception as error:
        # The job's row is the only place where anyone will look.
        ending = Ending("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}")
    job.finish(ending)


class _Job:
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
        self.stopping: str | None = None
        self._written: dict[str, Any] = {}
        self._spent = {"prompt_tokens": 0, "completion_tokens": 0, "requests": 0}

    async def run(self, key: str | None) -> Ending:
        from prime_lab_mcp.lab.evals.relay import Cap, Relay

        for folder in (self.files.home, self.files.work, self.files.output):
            folder.mkdir(parents=True, exist_ok=True)
        self._carry_over()
        cap = Cap(self.spec.max_total_tokens, self.spec.max_cost, self.spec.price)
        self.relay = Relay(self.spec.endpoint, key, cap)
        async with self.relay.serving():
            argv = program.command(self.spec, self.files, self.relay.url)
            env = program.environment(self.spec, self.files, self.relay.url, self.relay.secret, self.allow)
            return await self._watch(program.ours("evals.guard", *argv), env)

    async def _watch(self, argv: list[str], env: Mapping[str, str]) -> Ending:
        null = os.open(os.devnull, os.O_WRONLY)
        theirs, alive = os.pipe()
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
                self.stopping = "it reached its deadline"
            os.close(alive)
            if self.stopping:
                with anyio.move_on_after(GRACE + 6.0):
                    await child.process.wait()
            with anyio.move_on_after(1.0):
                await drained.wait()
            tasks.cancel_scope.cancel()
        self.files.errors.write_bytes(bytes(tail))
        if self.stopping:
            return Ending("stopped", self.stopping)
        return self._judged(code, tail.decode("utf-8", "replace"))

    async def _until_end(self, child: process.Child) -> int:
        while not self.stopping:
            with anyio.move_on_after(_BEAT / 2):
                return await child.process.wait()
        return 0

    def _judged(self, code: int, errors: str) -> Ending:
        self.tally.follow(self.files.results())
        if code != 0:
            said = _last_words(errors)
            return Ending("crashed", f"vf-eval ended with exit code {code}" + (f": {quote(said)}" if said else ""))
        if self.tally.rollouts == 0:
            return Ending("crashed", "vf-eval ended without a single rollout")
        return Ending("finished")

    async def _hear_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as heard:
            async for number in heard:
                if number != signal.SIGHUP:
                    self.stopping = "it was stopped"

    async def _beat(self) -> None:
        renewed = 0.0
        while True:
            self.tally.follow(self.files.results())
            progress = self.progress()
            now = time.time()
            if now - renewed > _WRITE or (progress != self._written and now - renewed > _BEAT):
                self.ledger.update_job(self.id, lease=now + LEASE, progress=progress)
                renewed, self._written = now, progress
            await anyio.sleep(_BEAT)

    def progress(self) -> dict[str, Any]:
        """What the job has done so far, in the form that readers of the ledger rely on."""
        shown = self.tally.as_json()
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
        self.tally.follow(found)
        progress = self.progress() | {"reason": ending.reason}
        if found is not None:
            progress["results"] = str(found.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(found)
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())

    def _carry_over(self) -> None:
        """Tokens that a run of the same job before this one paid for."""
        job = self.ledger.job(self.id)
        for name in self._spent:
            self._spent[name] = int((job.progress if job else {}).get(name) or 0)


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


def _last_words(errors: str) -> str:
    lines = [line.strip(_FRAME) for line in errors.splitlines()]
    return " | ".join([line for line in lines if line][-4:])[-600:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
