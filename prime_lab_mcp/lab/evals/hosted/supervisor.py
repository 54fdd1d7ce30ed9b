"""The supervisor of one hosted evaluation: a detached process that starts it, waits for its end and downloads samples.

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
from prime_lab_mcp.lab.base.fix import calls_record
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
"""Seconds between two renewals of the job's lease."""
_STOP_SECONDS = 15.0
"""Seconds for stopping the evaluation on the platform and downloading its samples, before this process ends."""


def main(argv: list[str]) -> int:
    """Follow the hosted evaluation whose job folder is `argv[0]` until it ends."""
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
        # Users see an error of the supervisor only in the job's row.
        ending = AttemptEnding("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}")
    cost = hosted_cost(job.follower.progress, description.get("bound"))
    if cost is not None:
        ledger.correct(str(description["key"]), settings.platform, cost)
    job.finish(ending)


def hosted_cost(progress: Mapping[str, Any], bound: float | None) -> float | None:
    """Return the most that an ended hosted evaluation can have cost, in US dollars.

    `bound` is the reserved amount. The platform states no cost, so the result is the cost of the downloaded samples. A
    rollout without a sample may have been billed, and adds its share of the bound. The result is None if the evaluation
    has not ended or the tokens of its samples are unknown; the bound then stays reserved.
    """
    cost = progress.get("cost")
    tokens = (progress.get("prompt_tokens") or 0) + (progress.get("completion_tokens") or 0)
    if progress.get("ended") not in ENDED_STATUSES or cost is None or bound is None or not tokens:
        return None
    planned = max(1, int(progress.get("planned") or 1))
    missing = max(0, planned - int(progress.get("completed") or 0)) / planned
    return round(float(cost) + bound * missing, 4)


class _Job:
    """The job of one hosted evaluation: renews its lease, hears stop signals and records the ending."""

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
        """Follow the evaluation until it ends, its deadline passes or a signal stops it; return how it ended."""
        stop, endings = anyio.Event(), list[AttemptEnding]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            tasks.start_soon(self._receive_signals, stop)
            with anyio.CancelScope() as following:
                tasks.start_soon(self._interrupt, stop, following)
                endings.append(await self._to_end())
            if not endings:
                with anyio.move_on_after(_STOP_SECONDS):
                    await self.follower.stop()
                reason = "it was stopped" if stop.is_set() else "it reached its deadline"
                endings.append(AttemptEnding("stopped", self.follower.stop_reason(reason)))
            tasks.cancel_scope.cancel()
        return endings[0]

    async def _to_end(self) -> AttemptEnding:
        try:
            return await self.follower.to_end()
        except LabError as error:
            self.follower.progress["failure"] = {
                "code": error.code,
                "message": error.message,
                "fix": error.fix,
                "calls": calls_record(error.fix),
            }
            return AttemptEnding("crashed", error.message)

    async def _interrupt(self, stop: anyio.Event, following: anyio.CancelScope) -> None:
        with anyio.move_on_after(max(0.0, self.deadline - time.time())):
            await stop.wait()
        following.cancel()

    async def _receive_signals(self, stop: anyio.Event) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGHUP:
                    stop.set()

    async def _beat(self) -> None:
        while True:
            self.ledger.update_job(self.id, lease=time.time() + LEASE, progress=self.follower.progress)
            await anyio.sleep(_BEAT)

    def finish(self, ending: AttemptEnding) -> None:
        """Record how the evaluation ended, with the sha256 of the samples. The verdict requires the same bytes."""
        progress = dict(self.follower.progress) | {"reason": ending.reason}
        samples = self.files.samples
        if samples.is_file():
            progress["results"] = str(samples.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(samples)
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
