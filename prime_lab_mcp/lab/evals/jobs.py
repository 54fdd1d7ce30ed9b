"""Evaluation jobs as the server sees them: start or attach, wait, stop, read. The job itself is its supervisor's.

Losing the server, the call or the client only ends the waiting. A job ends by finishing, by its deadline or by `stop`;
one whose supervisor died is found by its lapsed lease.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals import results
from prime_lab_mcp.lab.evals.ending import cause_in
from prime_lab_mcp.lab.evals.program import JobFiles, ours
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.records import Job

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

Progress = Callable[[float, float | None, str], Awaitable[None]]

LIVE = ("starting", "running")
_START_LEASE = 60.0
"""Seconds a new supervisor has to come up: it opens the ledger only after its imports."""
_POLL = 0.2
_STOP_WAIT = 20.0
_UPSTREAM_KEY = "PRIME_LAB_UPSTREAM_KEY"
_CACHE_VARIABLES = (
    "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE",
    "XDG_CACHE_HOME", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip


class Evals:
    """The evaluations of one workspace."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._root = lab.settings.evals

    async def start(self, spec: EvalSpec, key: str | None) -> Job:
        """Start an evaluation, attach to the live one with the same intent, or resume a broken one.

        One that finished whole is returned as it is: the same tasks are not paid for twice. `key` is the endpoint's; it
        goes to the supervisor by an inherited variable and is stored nowhere.
        """
        self.reconcile()
        done = self._done(spec)
        if done is not None:
            return done
        resumed = self._claim_resumable(spec)
        if resumed is not None:
            return self._launch(resumed, spec, key)
        now = time.time()
        fresh = Job(
            id=f"eval-{secrets.token_hex(4)}",
            workspace=self._lab.key,
            environment=spec.environment,
            source=spec.source,
            content=spec.content,
            intent=spec.intent,
            state="starting",
            pid=None,
            lease=now + _START_LEASE,
            deadline=now + spec.deadline_s,
            platform=self._lab.platform if spec.endpoint.preset == "prime" else None,
            spec=spec.as_json(),
            progress={"completed": 0, "planned": spec.planned, "errors": 0},
            at=now,
        )
        job = self._lab.ledger.create_job(fresh)
        return job if job.id != fresh.id else self._launch(job, spec, key)

    def _same(self, spec: EvalSpec) -> list[Job]:
        """Newest first."""
        jobs = self._lab.ledger.jobs(self._lab.key, environment=spec.environment)
        return [j for j in jobs if j.intent == spec.intent]

    def _done(self, spec: EvalSpec) -> Job | None:
        """The newest job with this intent, if it finished without a failed rollout and its results are there."""
        same = self._same(spec)
        if not same or same[0].state != "finished":
            return None
        told = same[0].progress
        whole = not told.get("errors") and not told.get("capped") and told.get("completed") == told.get("planned")
        return same[0] if whole and self.files(same[0].id).results() is not None else None

    def _claim_resumable(self, spec: EvalSpec) -> Job | None:
        """The newest broken job with this intent, taken over by exactly one caller."""
        if not spec.resumes:
            return None
        ledger, same = self._lab.ledger, self._same(spec)
        if not same or same[0].state not in ("crashed", "stopped"):
            return None
        job, now = same[0], time.time()
        deadline, lease = now + spec.deadline_s, now + _START_LEASE
        with ledger.transaction() as db:
            taken = db.execute(
                "UPDATE jobs SET state = 'starting', pid = NULL, lease = ?, deadline = ?, spec = ?"
                " WHERE id = ? AND state IN ('crashed', 'stopped')",
                (lease, deadline, json.dumps(spec.as_json()), job.id),
            )
            if taken.rowcount != 1:
                return None
        return dataclasses.replace(job, state="starting", lease=lease, deadline=deadline, spec=spec.as_json())

    def _launch(self, job: Job, spec: EvalSpec, key: str | None) -> Job:
        files = self.files(job.id)
        files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        told = {
            "id": job.id,
            "ledger": str(self._lab.settings.ledger),
            "deadline": job.deadline,
            "allow_env": list(self._lab.settings.allow_env),
            "spec": spec.as_json(),
        }
        files.spec.write_text(json.dumps(told), encoding="utf-8")
        extra = {_UPSTREAM_KEY: key} if key else {}
        env = process.clean_environment(extra, allow=(*_CACHE_VARIABLES, *self._lab.settings.allow_env))
        try:
            pid = process.spawn_detached(
                ours("evals.supervisor", str(files.root)), cwd=files.root, env=env, log=files.log
            )
        except BaseException:
            self._crashed(job, "its supervisor could not be started")
            raise
        # The supervisor may have written its own row by now: only a row without a pid is completed.
        with self._lab.ledger.transaction() as db:
            db.execute("UPDATE jobs SET pid = ? WHERE id = ? AND pid IS NULL", (pid, job.id))
        return self.get(job.id)

    def get(self, id: str) -> Job:
        """One job of this workspace, as it stands. Raises EvalError (`eval-not-found`)."""
        job = self._lab.ledger.job(id)
        if job is None or job.workspace != self._lab.key:
            known = ", ".join(j.id for j in self.list()[:5]) or "none yet"
            raise EvalError(
                f"there is no evaluation of that id in this workspace (newest: {known})",
                fix="Call watch_run without an id to list them.",
                code="eval-not-found",
            )
        return self._checked(job)

    def list(self, environment: str | None = None) -> list[Job]:
        """Newest first."""
        self.reconcile()
        return self._lab.ledger.jobs(self._lab.key, environment=environment)

    def spec(self, job: Job) -> EvalSpec:
        """What a job evaluates. Raises EvalError when a newer version wrote it."""
        try:
            return EvalSpec.from_json(job.spec)
        except (TypeError, KeyError, ValueError) as error:
            raise EvalError(
                f"evaluation {job.id} was recorded in a form this version cannot read",
                fix="Run run_eval again.",
                code="eval-unreadable",
            ) from error

    def files(self, id: str) -> JobFiles:
        return JobFiles(self._root / id)

    async def wait(self, id: str, seconds: float, progress: Progress) -> Job:
        """The job when it has ended, or after `seconds` as it stands. Cancelling only ends the waiting."""
        until = anyio.current_time() + seconds
        told: object = None
        while True:
            job = self.get(id)
            done, planned = job.progress.get("completed", 0), job.progress.get("planned")
            if (done, job.state) != told:
                told = (done, job.state)
                await progress(float(done), float(planned) if planned else None, _said(job))
            if job.state not in LIVE or anyio.current_time() >= until:
                return job
            await anyio.sleep(min(_POLL, max(0.0, until - anyio.current_time())))

    async def stop(self, id: str) -> Job:
        """Ask the supervisor to end the job and wait for it. A job that has ended is returned as it is."""
        job = self.get(id)
        if job.state in LIVE and job.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(job.pid, signal.SIGTERM)
        job = await self.wait(id, _STOP_WAIT, _unheard)
        if job.state in LIVE:
            raise EvalError(
                f"evaluation {id} has not ended within {_STOP_WAIT:g} seconds of being asked to",
                fix="Call control_run with stop again; its deadline ends it in any case.",
                code="eval-not-stopping",
            )
        return job

    def rollouts(self, id: str) -> Iterator[Rollout]:
        """Every finished rollout of a job, in the order they finished."""
        return results.read(self.results_path(id))

    def results_path(self, id: str) -> Path:
        """The results file of a job. Raises EvalError (`results-missing`) when nothing finished."""
        found = self.files(self.get(id).id).results()
        if found is None:
            raise EvalError(
                f"evaluation {id} has no finished rollout",
                fix="Call watch_run with its id to see how it stands.",
                code="results-missing",
            )
        return found

    def reconcile(self) -> None:
        """Mark jobs crashed whose supervisor is gone."""
        process.reap_detached()
        for state in LIVE:
            for job in self._lab.ledger.jobs(self._lab.key, state=state):
                self._checked(job)

    def _checked(self, job: Job) -> Job:
        if job.state not in LIVE:
            return job
        if job.pid is not None and not process.is_alive(job.pid):
            return self._crashed(job, "its supervisor died")
        if job.lease < time.time():
            # A machine that slept lets leases lapse too; a living supervisor renews within a second.
            if job.pid is not None and process.is_alive(job.pid) and job.lease > time.time() - 2 * _START_LEASE:
                return job
            return self._crashed(job, "its supervisor stopped answering")
        return job

    def _crashed(self, job: Job, reason: str) -> Job:
        with self._lab.ledger.transaction() as db:
            row = db.execute("SELECT state, pid, lease FROM jobs WHERE id = ?", (job.id,)).fetchone()
            # What was looked at may be outdated: the job ended properly, or was started anew, since.
            if row is not None and row["state"] in LIVE and (row["pid"], row["lease"]) == (job.pid, job.lease):
                cause = cause_in(self._log(job.id), self._root)
                progress = dict(job.progress) | {"reason": reason, "cause": cause}
                db.execute(
                    "UPDATE jobs SET state = 'crashed', progress = ? WHERE id = ?", (json.dumps(progress), job.id)
                )
        return self._lab.ledger.job(job.id) or job

    def _log(self, id: str) -> str:
        """The end of what the supervisor wrote when it could write nowhere else."""
        with suppress(OSError):
            return self.files(id).log.read_text(encoding="utf-8", errors="replace")[-8000:]
        return ""

    def in_use(self) -> frozenset[str]:
        """Contents of snapshots that a live job runs on, or that a broken one may be resumed on."""
        return frozenset(j.content for j in self._lab.ledger.jobs() if j.state != "finished")

    def clean(self, keep: int = 200) -> int:
        """Remove the folders of all but the newest `keep` jobs of this state directory that have ended."""
        ended = [j for j in self._lab.ledger.jobs() if j.state not in LIVE]
        removed = 0
        for job in ended[keep:]:
            if (self._root / job.id).is_dir():
                shutil.rmtree(self._root / job.id, ignore_errors=True)
                removed += 1
        return removed


async def _unheard(done: float, total: float | None, message: str) -> None:
    """For waiting that nobody follows."""


def _said(job: Job) -> str:
    done, planned = job.progress.get("completed", 0), job.progress.get("planned", 0)
    errors = job.progress.get("errors") or 0
    told = f"{done} of {planned} rollouts" if job.state != "starting" else "starting"
    return told + (f", {errors} failed" if errors else "")
