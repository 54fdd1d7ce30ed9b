"""The process that follows one hosted evaluation: it starts the evaluation once, waits for its end and downloads it.

Run as `python -m prime_lab_mcp.lab.evals.hosted.supervisor JOBDIR`. The process outlives the server. If the process
dies, the evaluation continues on the platform, and the next supervisor of the job attaches to the same evaluation.
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

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.hosted.following import FollowPace, HostedFollower
from prime_lab_mcp.lab.evals.hosted.launch import variables_file
from prime_lab_mcp.lab.evals.hosted.platform import ENDED_STATUSES
from prime_lab_mcp.lab.evals.runner.attempt import LEASE, file_sha256
from prime_lab_mcp.lab.evals.runner.command import JobFiles
from prime_lab_mcp.lab.evals.runner.endings import AttemptEnding
from prime_lab_mcp.lab.evals.runner.supervisor import take_key
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.prime.client import Prime
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.toolchain import Toolchain

_BEAT = 1.0
_STOP_SECONDS = 15.0
"""Seconds to stop the evaluation on the platform and save what is finished, before this process ends in any case."""


def main(argv: list[str]) -> int:
    """Follow the evaluation of the job in the folder `argv[0]` to its end."""
    key = take_key()
    if key is not None:
        os.environ["PRIME_API_KEY"] = key
    files = JobFiles(Path(argv[0]))
    description = json.loads(files.spec.read_text(encoding="utf-8"))
    ledger = Ledger(Path(description["ledger"]))
    try:
        anyio.run(_supervise, description, files, ledger)
    finally:
        ledger.close()
    return 0


async def _supervise(description: Mapping[str, Any], files: JobFiles, ledger: Ledger) -> None:
    settings = Settings(
        Path(description["workspace"]), Path(description["state_dir"]), rehearsal=bool(description["rehearsal"])
    )

    async def variables() -> Mapping[str, str]:
        loaded: dict[str, str] = json.loads(variables_file(files).read_text(encoding="utf-8"))
        return loaded

    prime = Prime(settings, Toolchain(settings), variables)
    job = _Job(description, files, ledger, prime, settings)
    ledger.update_job(job.id, pid=os.getpid(), state="running", lease=time.time() + LEASE)
    try:
        ending = await job.run()
    except Exception as error:
        # The job's row is the only place where a user sees the error.
        ending = AttemptEnding("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}")
    cost = hosted_cost(job.follower.progress, description.get("bound"))
    if cost is not None:
        ledger.correct(str(description["key"]), settings.platform, cost)
    job.finish(ending)


def hosted_cost(progress: Mapping[str, Any], bound: float | None) -> float | None:
    """The most that an ended evaluation of the platform cost, in US dollars. None if only its bound is known.

    The platform states no cost, so that of the downloaded samples counts. Each rollout without a sample may have been
    paid for, and counts with its share of the bound.
    """
    cost = progress.get("cost")
    tokens = (progress.get("prompt_tokens") or 0) + (progress.get("completion_tokens") or 0)
    if progress.get("ended") not in ENDED_STATUSES or cost is None or bound is None or not tokens:
        return None
    planned = max(1, int(progress.get("planned") or 1))
    missing = max(0, planned - int(progress.get("completed") or 0)) / planned
    return round(float(cost) + bound * missing, 4)


class _Job:
    def __init__(
        self, description: Mapping[str, Any], files: JobFiles, ledger: Ledger, prime: Prime, settings: Settings
    ) -> None:
        self.id = str(description["id"])
        self.files = files
        self.ledger = ledger
        self.deadline = float(description["deadline"])
        row = ledger.job(self.id)
        self.follower = HostedFollower(
            prime,
            ledger,
            settings.platform,
            EvalSpec.from_json(description["spec"]),
            str(description["key"]),
            str(description["name"]),
            files.samples,
            FollowPace.of(settings),
            self.id,
            str(row.workspace if row else ""),
            description["latest"],
            dict(row.progress) if row else {},
        )

    async def run(self) -> AttemptEnding:
        """Follow the evaluation until the platform ends it, its deadline passes or somebody stops it."""
        stop, endings = anyio.Event(), list[AttemptEnding]()
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
                endings.append(AttemptEnding("stopped", self.follower.stopped(why)))
            tasks.cancel_scope.cancel()
        return endings[0]

    async def _to_end(self) -> AttemptEnding:
        try:
            return await self.follower.to_end()
        except LabError as error:
            self.follower.progress["failure"] = {"code": error.code, "message": error.message, "fix": error.fix}
            return AttemptEnding("crashed", error.message)

    async def _interrupt(self, stop: anyio.Event, following: anyio.CancelScope) -> None:
        with anyio.move_on_after(max(0.0, self.deadline - time.time())):
            await stop.wait()
        following.cancel()

    async def _hear_signals(self, stop: anyio.Event) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGHUP:
                    stop.set()

    async def _beat(self) -> None:
        while True:
            self.ledger.update_job(self.id, lease=time.time() + LEASE, progress=self.follower.progress)
            await anyio.sleep(_BEAT)

    def finish(self, ending: AttemptEnding) -> None:
        """Record how the evaluation ended. The hash covers exactly the bytes that are judged later."""
        progress = dict(self.follower.progress) | {"reason": ending.reason}
        samples = self.files.samples
        if samples.is_file():
            progress["results"] = str(samples.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(samples)
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
