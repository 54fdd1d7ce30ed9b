"""Following one hosted evaluation: ask how it stands, keep what it gives, stop it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.evals.ending import Ending
from prime_lab_mcp.lab.evals.hosted import platform
from prime_lab_mcp.lab.evals.hosted.platform import ENDED, PASSING, Status
from prime_lab_mcp.lab.evals.hosted.start import SETTLE_SECONDS, Start
from prime_lab_mcp.lab.evals.results import read
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.ledger import Ledger
from prime_lab_mcp.lab.prime import Prime
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.settings import Platform, Settings
from prime_lab_mcp.lab.text import quote


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: between looks, of a platform that cannot be reached, of an evaluation that does not advance."""

    look: float
    patience: float
    stall: float
    settle: float

    @classmethod
    def of(cls, settings: Settings) -> Pace:
        if settings.rehearsal:
            return cls(look=0.7, patience=60.0, stall=12.0, settle=0.0)
        return cls(look=10.0, patience=1800.0, stall=1800.0, settle=SETTLE_SECONDS)


class Follower:
    """`progress` is what the job's row shows; `evaluation` in it is the platform's id, `ended` its last word."""

    def __init__(
        self, prime: Prime, ledger: Ledger, place: Platform, spec: EvalSpec, key: str, name: str,
        target: Path, pace: Pace, job: str, workspace: str, latest: Mapping[str, Any], before: dict[str, Any],
    ) -> None:  # fmt: skip
        self._latest = latest
        self._prime, self._ledger, self._place = prime, ledger, place
        self._spec, self._key, self._name, self._target, self._pace = spec, key, name, target, pace
        self._job, self._workspace = job, workspace
        kept = ("evaluation", "url", "completed", "mean_reward", "moved")
        self.progress: dict[str, Any] = {
            "completed": 0, "planned": spec.planned, "errors": 0, "mean_reward": None,
            "hosted": spec.hosted, "name": name, **{k: before[k] for k in kept if k in before},
        }  # fmt: skip

    @property
    def id(self) -> str:
        return str(self.progress["evaluation"])

    @property
    def _ref(self) -> str:
        return (self._spec.hosted or "").partition("@")[0]

    async def to_end(self) -> Ending:
        """Start or attach, wait, download. Raises LabError; the evaluation may then go on at the platform."""
        self.progress["prime"] = await self._prime.version()
        if "evaluation" not in self.progress:
            start = Start(self._prime, self._ledger, self._place, self._spec, self._key, self._name, self._pace.settle)
            # Stopped halfway, a start would leave open whether it went out.
            with anyio.CancelScope(shield=True):
                self._known(await start.once())
        await self._compare()
        status = await self._until_ended()
        if status.word == "COMPLETED":
            return await self._completed()
        with suppress(LabError):
            await self._download()
        if status.word == "STALLED":
            return Ending("crashed", str(status.said))
        said = f": {quote(status.said)}" if status.said else ", for no reason that it gave"
        reason = f"the platform ended it {status.word}{said}"
        return Ending("stopped" if status.word == "CANCELLED" else "crashed", reason)

    def _known(self, id: str) -> None:
        self.progress["evaluation"] = id
        self._ledger.settle(self._key, self._place, {"id": id, "name": self._name})
        if not self._ledger.runs(id=id, platform=self._place):
            self._ledger.record_run(
                Run(
                    id, "hosted-eval", self._name, self._workspace, self._key, self._place,
                    data={"job": self._job, "environment": self._spec.hosted, "model": self._spec.model},
                )
            )  # fmt: skip
        self._ledger.update_job(self._job, progress=self.progress)

    # Following

    async def _compare(self) -> None:
        """Note whether the latest version right after the start is still the one that was looked at before it."""
        if "moved" in self.progress:
            return
        with suppress(LabError):
            latest = (await self._prime.env_status(self._ref)).get("latest_version")
            if isinstance(latest, Mapping):
                now = {k: latest.get(k) for k in ("semantic_version", "content_hash")}
                self.progress["moved"] = now != dict(self._latest)

    async def _until_ended(self) -> Status:
        moved = answered = time.monotonic()
        seen: object = None
        while True:
            status = await self._look(answered)
            now = time.monotonic()
            if status is not None:
                answered = now
                if (status.word, status.samples) != seen:
                    seen, moved = (status.word, status.samples), now
                if status.word in ENDED:
                    self.progress["ended"] = status.word
                    return status
                if now - moved > self._pace.stall:
                    return await self._stalled(status, now - moved)
            await anyio.sleep(self._pace.look)

    async def _look(self, answered: float) -> Status | None:
        """How it stands; None while the platform cannot be asked. Raises LabError when that lasts, or is final."""
        try:
            status = platform.status_of(await self._prime.eval_get(self.id))
        except LabError as error:
            if error.code == "platform-not-found":
                self.progress["ended"] = "DELETED"
                raise
            waited = time.monotonic() - answered
            if error.code not in PASSING or waited > self._pace.patience:
                raise PrimeError(
                    f"evaluation {self.id} could not be followed: {error.message}",
                    fix="It goes on at the platform; the same run_eval call attaches to it again.",
                    code=error.code,
                ) from error
            self.progress["trouble"] = error.message
            return None
        self.progress.pop("trouble", None)
        self.progress |= {"platform_status": status.word, "url": status.url, "completed": status.samples}
        if status.mean is not None:
            self.progress["mean_reward"] = status.mean
        return status

    async def _stalled(self, status: Status, seconds: float) -> Status:
        """What does not advance is stopped, so that it does not go on costing."""
        said = f"it stalled: nothing finished for {seconds / 60:.0f} minutes after {status.samples} rollouts"
        try:
            await self._prime.eval_stop(self.id)
            self.progress["ended"] = "STALLED"
            said += "; it was stopped at the platform"
        except LabError as error:
            said += f"; the platform was asked to stop it, and did not: {error.message}"
        return replace(status, word="STALLED", said=said)

    # Its end

    async def _completed(self) -> Ending:
        if await self._download() == 0:
            return Ending("crashed", "the platform ended it COMPLETED without a single rollout")
        await self._compare()
        return Ending("finished")

    async def _download(self) -> int:
        async def note(done: int, total: int | None) -> None:
            self.progress["downloaded"] = done

        done = await platform.download(self._prime, self.id, self._target, note)
        self._count()
        return done

    def _count(self) -> None:
        """Totals of what was downloaded: these are what is judged, not the platform's."""
        rollouts = errors = prompt = completion = scored = 0
        total = 0.0
        for rollout in read(self._target):
            rollouts += 1
            errors += rollout.error is not None
            prompt, completion = prompt + rollout.prompt_tokens, completion + rollout.completion_tokens
            if rollout.reward is not None:
                scored, total = scored + 1, total + rollout.reward
        self.progress |= {
            "completed": rollouts, "errors": errors, "mean_reward": total / scored if scored else None,
            "prompt_tokens": prompt, "completion_tokens": completion,
        }  # fmt: skip
        if self._spec.price is not None:
            self.progress["cost"] = self._spec.price.of(prompt, completion)

    async def stop(self) -> None:
        """Ask the platform to stop it and keep what is finished."""
        if "evaluation" not in self.progress:
            return
        with suppress(LabError):
            await self._prime.eval_stop(self.id)
        with suppress(LabError):
            word = platform.status_of(await self._prime.eval_get(self.id)).word
            if word in ENDED:
                self.progress["ended"] = word
            await self._download()

    def stopped(self, why: str) -> str:
        """Why it ended, and whether the platform confirmed it."""
        if "evaluation" not in self.progress or self.progress.get("ended"):
            return why
        return f"{why}; the platform has not confirmed that evaluation {self.id} ended"
