"""The process that follows one hosted evaluation: starts it once, waits for its end, downloads it. Outlives the server.

`python -m prime_lab_mcp.lab.evals.hosted.supervisor JOBDIR`. When it dies, the evaluation goes on at the platform; the
next supervisor of the job attaches to the same one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals.attempt import LEASE, file_sha256
from prime_lab_mcp.lab.evals.ending import Ending
from prime_lab_mcp.lab.evals.hosted.follow import Follower, Pace
from prime_lab_mcp.lab.evals.hosted.launch import variables_file
from prime_lab_mcp.lab.evals.program import JobFiles
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.supervisor import take_key
from prime_lab_mcp.lab.ledger import Ledger
from prime_lab_mcp.lab.prime import Prime
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.toolchain import Toolchain

_BEAT = 1.0
_STOP_SECONDS = 15.0
"""For asking the platform to stop and keeping what is finished, before this process ends in any case."""


def main(argv: list[str]) -> int:
    """Follow the evaluation of the job in the folder `argv[0]` to its end."""
    key = take_key()
    if key is not None:
        os.environ["PRIME_API_KEY"] = key
    files = JobFiles(Path(argv[0]))
    told = json.loads(files.spec.read_text(encoding="utf-8"))
    ledger = Ledger(Path(told["ledger"]))
    try:
        anyio.run(_supervise, told, files, ledger)
    finally:
        ledger.close()
    return 0


async def _supervise(told: Mapping[str, Any], files: JobFiles, ledger: Ledger) -> None:
    settings = Settings(Path(told["workspace"]), Path(told["state_dir"]), rehearsal=bool(told["rehearsal"]))

    async def variables() -> Mapping[str, str]:
        found: dict[str, str] = json.loads(variables_file(files).read_text(encoding="utf-8"))
        return found

    prime = Prime(settings, Toolchain(settings), variables)
    job = _Job(told, files, ledger, prime, settings)
    ledger.update_job(job.id, pid=os.getpid(), state="running", lease=time.time() + LEASE)
    try:
        ending = await job.run()
    except Exception as error:
        # The job's row is the only place where anyone will look.
        ending = Ending("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}")
    job.finish(ending)


class _Job:
    def __init__(
        self, told: Mapping[str, Any], files: JobFiles, ledger: Ledger, prime: Prime, settings: Settings
    ) -> None:
        self.id = str(told["id"])
        self.files = files
        self.ledger = ledger
        self.deadline = float(told["deadline"])
        row = ledger.job(self.id)
        self.follower = Follower(
            prime, ledger, settings.platform, EvalSpec.from_json(told["spec"]), str(told["key"]), str(told["name"]),
            files.samples, Pace.of(settings), self.id, str(row.workspace if row else ""),
            told["latest"], dict(row.progress) if row else {},
        )  # fmt: skip

    async def run(self) -> Ending:
        """Follow until the platform ends it, its deadline passes or somebody asks for the end."""
        stop, endings = anyio.Event(), list[Ending]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            tasks.start_soon(self._hear_signals, stop)
            with anyio.CancelScope() as following:
                tasks.start_soon(self._interrupt, stop, following)
                endings.append(await self._to_end())
            if not endings:
                with anyio.move_on_after(_STOP_SECONDS):
                    await self.follower.stop()
                why = "it was stopped" if stop.is_set() else "it reached its deadline"
                endings.append(Ending("stopped", self.follower.stopped(why)))
            tasks.cancel_scope.cancel()
        return endings[0]

    async def _to_end(self) -> Ending:
        try:
            return await self.follower.to_end()
        except LabError as error:
            self.follower.progress["failure"] = {"code": error.code, "message": error.message, "fix": error.fix}
            return Ending("crashed", error.message)

    async def _interrupt(self, stop: anyio.Event, following: anyio.CancelScope) -> None:
        with anyio.move_on_after(max(0.0, self.deadline - time.time())):
            await stop.wait()
        following.cancel()

    async def _hear_signals(self, stop: anyio.Event) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as heard:
            async for number in heard:
                if number != signal.SIGHUP:
                    stop.set()

    async def _beat(self) -> None:
        while True:
            self.ledger.update_job(self.id, lease=time.time() + LEASE, progress=self.follower.progress)
            await anyio.sleep(_BEAT)

    def finish(self, ending: Ending) -> None:
        """Write how it ended. The hash covers exactly the bytes that are judged later."""
        progress = dict(self.follower.progress) | {"reason": ending.reason}
        found = self.files.samples
        if found.is_file():
            progress["results"] = str(found.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(found)
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
