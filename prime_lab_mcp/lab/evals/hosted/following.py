"""Requests to the platform about one hosted evaluation: start it at most once, poll its status, download and stop it.

The start is recorded before the request goes out. If the response is lost, the evaluation is looked up by name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.settings import Platform, Settings
from prime_lab_mcp.lab.base.statistics import MeanOfTasks
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.hosted import platform
from prime_lab_mcp.lab.evals.hosted.platform import ENDED_STATUSES, TRANSIENT_CODES, HostedStatus
from prime_lab_mcp.lab.evals.runner.endings import AttemptEnding
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.prime.client import Prime
from prime_lab_mcp.lab.prime.refusals import ended_by_force, had_no_effect
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.once import AtMostOnce, Delays, Lookup, Once

DELAYS: Mapping[Platform, Delays] = {
    # `prime` takes at most 180 s, and the platform may list the evaluation only some time after that.
    "prime": Delays(limit=180.0, landing=150.0, landing_after_failure=150.0, wait=60.0),
    "rehearsal": Delays(limit=180.0, landing=5.0, landing_after_failure=0.0, wait=60.0),
}


class HostedStart(AtMostOnce[str]):
    """The intent to start the hosted evaluation of a job. Its value is the id of the evaluation on the platform."""

    kind = "eval"

    def __init__(
        self,
        prime: Prime,
        ledger: Ledger,
        platform_name: Platform,
        spec: EvalSpec,
        *,
        key: str,
        name: str,
        job: str,
        workspace: str,
    ) -> None:
        """Describe the start. `key` identifies the intent in the ledger, `name` is the name on the platform, and `job`
        is the id of the job that follows the evaluation."""
        super().__init__(key, platform_name, DELAYS[platform_name])
        self._prime, self._ledger, self._spec = prime, ledger, spec
        self._name, self._job, self._workspace = name, job, workspace

    @property
    def _ref(self) -> str:
        return (self._spec.hosted or "").partition("@")[0]

    async def send(self) -> str:
        spec = self._spec
        return await self._prime.eval_hosted(
            self._ref,
            model=spec.model,
            num_examples=spec.num_examples,
            rollouts=spec.rollouts,
            name=self._name,
            env_args=spec.env_args,
            max_tokens=spec.max_tokens,
            temperature=spec.temperature,
            concurrency=spec.concurrency,
            timeout_minutes=max(1, int(spec.deadline_s // 60)),
        )

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[str]:
        return Lookup(await platform.find_evaluation(self._prime, self._name, self._ref))

    def had_no_effect(self, error: LabError) -> bool:
        return had_no_effect(error)

    def ended_by_force(self, error: LabError) -> bool:
        return ended_by_force(error)

    def as_result(self, value: str) -> Mapping[str, Any]:
        return {"id": value, "name": self._name}

    def from_result(self, result: Mapping[str, Any]) -> str:
        return str(result["id"])

    def record(self, value: str) -> None:
        if not self._ledger.runs(id=value, platform=self.platform):
            self._ledger.record_run(
                Run(
                    value,
                    "hosted-eval",
                    self._name,
                    self._workspace,
                    self.key,
                    self.platform,
                    data={"job": self._job, "environment": self._spec.hosted, "model": self._spec.model},
                )
            )

    def in_flight(self) -> LabError:
        return self.unknown("another server is starting it right now", 60.0)

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether hosted evaluation {self._name} was started is not known: {why}",
            fix=Fix(
                "Make the same ",
                NamedCall("run_eval"),
                f" call again in {max(10, round(seconds) + 5)} seconds; it looks before it sends anything.",
            ),
            code="hosted-outcome-unknown",
        )


@dataclass(frozen=True, slots=True)
class FollowPace:
    """The pace of status requests and their time limits, in seconds."""

    interval: float
    """Time between two status requests."""
    patience: float
    """Time after which an unreachable platform is given up."""
    stall: float
    """Time without progress after which an evaluation counts as stalled."""

    @classmethod
    def of(cls, settings: Settings) -> FollowPace:
        """Return the pace for the real platform or the rehearsal."""
        if settings.rehearsal:
            return cls(interval=0.7, patience=60.0, stall=12.0)
        return cls(interval=10.0, patience=1800.0, stall=1800.0)


class HostedFollower:
    """Starts one hosted evaluation and follows it until it ends.

    The supervisor writes `progress` to the job's row. Its key `evaluation` is the id on the platform, `ended` the final
    status.
    """

    def __init__(
        self,
        prime: Prime,
        ledger: Ledger,
        platform_name: Platform,
        spec: EvalSpec,
        key: str,
        name: str,
        target: Path,
        pace: FollowPace,
        job: str,
        workspace: str,
        latest: Mapping[str, Any],
        before: dict[str, Any],
    ) -> None:
        self._latest = latest
        self._prime, self._ledger, self._platform_name = prime, ledger, platform_name
        self._spec, self._key, self._name, self._target, self._pace = spec, key, name, target, pace
        self._job, self._workspace = job, workspace
        carried_over = ("evaluation", "url", "completed", "mean_reward", "moved")
        self.progress: dict[str, Any] = {
            "completed": 0,
            "planned": spec.planned,
            "errors": 0,
            "mean_reward": None,
            "hosted": spec.hosted,
            "name": name,
            **{k: before[k] for k in carried_over if k in before},
        }

    @property
    def id(self) -> str:
        """Id of the evaluation on the platform."""
        return str(self.progress["evaluation"])

    @property
    def _ref(self) -> str:
        return (self._spec.hosted or "").partition("@")[0]

    async def to_end(self) -> AttemptEnding:
        """Start the evaluation or attach to it, wait for its end and download its samples; return how it ended.

        Raises LabError. The evaluation may then continue on the platform.
        """
        self.progress["prime"] = await self._prime.version()
        if "evaluation" not in self.progress:
            # If the start were cancelled, its outcome would be unknown.
            with anyio.CancelScope(shield=True):
                await self._start()
        await self._note_latest_version()
        status = await self._until_ended()
        if status.state == "COMPLETED":
            return await self._completed()
        with suppress(LabError):
            await self._download()
        if status.state == "STALLED":
            return AttemptEnding("crashed", str(status.error_message))
        explanation = f": {quote(status.error_message)}" if status.error_message else ", for no reason that it gave"
        reason = f"the platform ended it {status.state}{explanation}"
        return AttemptEnding("stopped" if status.state == "CANCELLED" else "crashed", reason)

    async def _start(self) -> None:
        start = HostedStart(
            self._prime,
            self._ledger,
            self._platform_name,
            self._spec,
            key=self._key,
            name=self._name,
            job=self._job,
            workspace=self._workspace,
        )
        settled = await Once(self._ledger).send(start)
        if settled is None:
            raise start.in_flight()
        self.progress["evaluation"] = settled.value
        self._ledger.update_job(self._job, progress=self.progress)

    async def _note_latest_version(self) -> None:
        """Record whether the latest version on the Hub is another one than when the evaluation was planned."""
        if "moved" in self.progress:
            return
        with suppress(LabError):
            latest = (await self._prime.env_status(self._ref)).get("latest_version")
            if isinstance(latest, Mapping):
                now = {k: latest.get(k) for k in ("semantic_version", "content_hash")}
                self.progress["moved"] = now != dict(self._latest)

    async def _until_ended(self) -> HostedStatus:
        progressed = answered = time.monotonic()
        last: object = None
        while True:
            status = await self._query_status(answered)
            now = time.monotonic()
            if status is not None:
                answered = now
                if (status.state, status.samples) != last:
                    last, progressed = (status.state, status.samples), now
                if status.state in ENDED_STATUSES:
                    self.progress["ended"] = status.state
                    return status
                if now - progressed > self._pace.stall:
                    return await self._stalled(status, now - progressed)
            await anyio.sleep(self._pace.interval)

    async def _query_status(self, answered: float) -> HostedStatus | None:
        """Return the status, or None if the request failed. `answered` is the time of the last answer.

        Raises LabError if the failure is permanent or has lasted longer than the pace allows.
        """
        try:
            status = platform.status_of(await self._prime.eval_get(self.id))
        except LabError as error:
            if error.code == "platform-not-found":
                self.progress["ended"] = "DELETED"
                raise
            waited = time.monotonic() - answered
            if error.code not in TRANSIENT_CODES or waited > self._pace.patience:
                raise PrimeError(
                    f"evaluation {self.id} could not be followed: {error.message}",
                    fix=Fix(
                        "It goes on at the platform; the same ", NamedCall("run_eval"), " call attaches to it again."
                    ),
                    code=error.code,
                ) from error
            self.progress["trouble"] = error.message
            return None
        self.progress.pop("trouble", None)
        self.progress |= {"platform_status": status.state, "url": status.url, "completed": status.samples}
        if status.mean is not None:
            self.progress["mean_reward"] = status.mean
        return status

    async def _stalled(self, status: HostedStatus, seconds: float) -> HostedStatus:
        """Stop an evaluation that made no progress for `seconds`, and return its status as STALLED."""
        message = f"it stalled: nothing finished for {seconds / 60:.0f} minutes after {status.samples} rollouts"
        try:
            await self._prime.eval_stop(self.id)
            self.progress["ended"] = "STALLED"
            message += "; it was stopped at the platform"
        except LabError as error:
            message += f"; the platform was asked to stop it, and did not: {error.message}"
        return replace(status, state="STALLED", error_message=message)

    async def _completed(self) -> AttemptEnding:
        if await self._download() == 0:
            return AttemptEnding("crashed", "the platform ended it COMPLETED without a single rollout")
        await self._note_latest_version()
        return AttemptEnding("finished")

    async def _download(self) -> int:
        async def note_downloaded(samples: int, total: int | None) -> None:
            self.progress["downloaded"] = samples

        samples = await platform.download_samples(self._prime, self.id, self._target, note_downloaded)
        self._count()
        return samples

    def _count(self) -> None:
        """Count rollouts, errors and tokens in the downloaded samples. The verdict uses the samples as well."""
        rollouts = errors = prompt = completion = 0
        mean = MeanOfTasks()
        for rollout in read_rollouts(self._target):
            rollouts += 1
            errors += rollout.error is not None
            prompt, completion = prompt + rollout.prompt_tokens, completion + rollout.completion_tokens
            if rollout.reward is not None and rollout.error is None and not rollout.nonfinite:
                mean.add(rollout.task, rollout.reward)
        self.progress |= {
            "completed": rollouts,
            "errors": errors,
            "mean_reward": mean.value,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
        }
        if self._spec.price is not None:
            self.progress["cost"] = self._spec.price.of(prompt, completion)

    async def stop(self) -> None:
        """Stop the evaluation on the platform and download its finished samples. Errors are ignored."""
        if "evaluation" not in self.progress:
            return
        with suppress(LabError):
            await self._prime.eval_stop(self.id)
        with suppress(LabError):
            state = platform.status_of(await self._prime.eval_get(self.id)).state
            if state in ENDED_STATUSES:
                self.progress["ended"] = state
            await self._download()

    def stop_reason(self, reason: str) -> str:
        """Return the reason of a stop, with a note if the platform has not confirmed the end."""
        if "evaluation" not in self.progress or self.progress.get("ended"):
            return reason
        return f"{reason}; the platform has not confirmed that evaluation {self.id} ended"
