"""The server's access to evaluation jobs: start a job or attach to one, wait, stop, and read the results.

A detached supervisor process runs each job, so the job continues if the server, the call or the client ends. A job ends
when it finishes, when it reaches its deadline, or when `stop` is called. The supervisor renews the lease of its job; a
job whose supervisor is gone, or whose lease expired, is marked as crashed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next, Progress
from prime_lab_mcp.lab.evals.runner.admitted_costs import AdmittedCosts
from prime_lab_mcp.lab.evals.runner.command import UPSTREAM_KEY, JobFiles
from prime_lab_mcp.lab.evals.runner.endings import cause_of_errors
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, EvalSpec
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.sandbox.containers.access import CONTAINER_VARIABLES
from prime_lab_mcp.lab.state.ledger.rows import Job

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab


LIVE_STATES = ("starting", "running")
START_LEASE = 60.0
"""Seconds that a new supervisor has to start. It renews its lease only after its imports."""
_POLL = 0.2
_STOP_WAIT = 20.0
_CACHE_VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "XDG_CACHE_HOME",
    *process.PROXY_VARIABLES,
)


def starting_job(lab: Lab, spec: EvalSpec, seconds: float, *, on_platform: bool) -> Job:
    """Return the row of a new job that may run for so many seconds and whose supervisor has not started yet.

    `on_platform` says that the job spends money on the platform.
    """
    now = time.time()
    return Job(
        id=f"eval-{secrets.token_hex(4)}",
        workspace=lab.key,
        environment=spec.environment,
        source=spec.source,
        content=spec.content,
        intent=spec.intent,
        state="starting",
        pid=None,
        lease=now + START_LEASE,
        deadline=now + seconds,
        platform=lab.platform if on_platform else None,
        spec=spec.as_json(),
        progress={"completed": 0, "planned": spec.planned, "errors": 0},
        at=now,
    )


class EvaluationJobs:
    """The evaluations of one workspace."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._root = lab.settings.evals

    def costs_nothing(self, spec: EvalSpec) -> bool:
        """Whether `start` would return a finished or running evaluation, so that the call costs nothing more."""
        self.reconcile()
        live = any(j.state in LIVE_STATES for j in self._same_intent(spec)[:1])
        return live or self._finished(spec) is not None

    async def start(self, spec: EvalSpec, key: str | None, *, confirmed: bool = True) -> Job:
        """Start an evaluation, attach to the live one with the same intent, or resume one with missing rollouts.

        A complete evaluation is returned as it is, so that nobody pays twice for the same tasks. The supervisor gets
        `key`, the endpoint's key, in an environment variable; the key is not stored. `spec.max_cost` is reserved before
        anything starts, and replaced by the real cost at the end. `confirmed` says whether a person agreed. Raises
        EvalError (`over-cap`, `intent-changed`).
        """
        self.reconcile()
        finished = self._finished(spec)
        if finished is not None:
            return finished
        live = next((job for job in self._same_intent(spec)[:1] if job.state in LIVE_STATES), None)
        if live is not None:
            return live
        resumed = self._claim_resumable(spec, confirmed)
        if resumed is not None:
            return self._launch(resumed, self.spec(resumed), key)
        fresh = starting_job(self._lab, spec, spec.deadline_s, on_platform=spec.endpoint.preset == "prime")
        # If the cost cannot be reserved, the exception rolls the transaction back, and no job is created.
        with self._lab.ledger.transaction():
            job = self._lab.ledger.create_job(fresh)
            if job.id == fresh.id:
                self._reserve(fresh, spec, confirmed)
        return job if job.id != fresh.id else self._launch(job, spec, key)

    def _reserve(self, job: Job, spec: EvalSpec, confirmed: bool) -> None:
        """Reserve the most that a job may cost.

        Raises EvalError if the amount exceeds the spending cap, or if a person has to be asked first.
        """
        if spec.max_cost is None:
            return
        ledger, cap, platform = self._lab.ledger, self._lab.limits.max_spend, self._lab.platform
        if not confirmed and ledger.unasked(platform) + spec.max_cost > ASK_AFTER + 1e-9:
            raise EvalError(
                f"other evaluations started meanwhile, and those that nobody was asked about reach ${ASK_AFTER:.0f}",
                fix=Fix("Call ", NamedCall("run_eval"), " again; it asks the user."),
                code="intent-changed",
            )
        purpose = f"evaluation {job.id} of {spec.environment}"
        if not ledger.reserve(job.id, spec.max_cost, purpose, platform, cap, asked=confirmed):
            raise EvalError(
                f"this may cost up to ${spec.max_cost:.2f}; with ${ledger.spent(platform):.2f} committed it exceeds "
                f"the cap of ${cap or 0.0:.2f}",
                fix="Ask for fewer examples, rollouts or max_tokens, or have the user raise --max-spend.",
                code="over-cap",
            )

    def _same_intent(self, spec: EvalSpec) -> list[Job]:
        """Return the jobs with the intent of this specification, newest first."""
        jobs = self._lab.ledger.jobs(self._lab.key, environment=spec.environment)
        return [j for j in jobs if j.intent == spec.intent]

    def _finished(self, spec: EvalSpec) -> Job | None:
        """Return the newest job with this intent if it finished without a failed rollout and its results exist."""
        jobs = self._same_intent(spec)
        if not jobs or jobs[0].state != "finished":
            return None
        progress = jobs[0].progress
        complete = (
            not progress.get("errors")
            and not progress.get("capped")
            and progress.get("completed") == progress.get("planned")
        )
        return jobs[0] if complete and self.files(jobs[0].id).results() is not None else None

    def _claim_resumable(self, spec: EvalSpec, confirmed: bool) -> Job | None:
        """Claim the newest job with this intent if it broke off, or finished with failed rollouts.

        Exactly one caller gets the job. The job is judged again when it ends.
        """
        if not spec.resumes:
            return None
        ledger, jobs = self._lab.ledger, self._same_intent(spec)
        if not jobs or jobs[0].state in LIVE_STATES:
            return None
        job, now = jobs[0], time.time()
        if spec.max_cost is not None:
            # The cost of earlier attempts stays reserved.
            spec = dataclasses.replace(spec, max_cost=spec.max_cost + float(job.progress.get("cost") or 0.0))
        deadline, lease = now + spec.deadline_s, now + START_LEASE
        with ledger.transaction() as db:
            claimed = db.execute(
                "UPDATE jobs SET state = 'starting', pid = NULL, lease = ?, deadline = ?, spec = ?, judged = 0"
                " WHERE id = ? AND state = ? AND lease = ?",
                (lease, deadline, json.dumps(spec.as_json()), job.id, job.state, job.lease),
            )
            if claimed.rowcount != 1:
                return None
            self._reserve(job, spec, confirmed)
        return dataclasses.replace(job, state="starting", lease=lease, deadline=deadline, spec=spec.as_json())

    def _launch(self, job: Job, spec: EvalSpec, key: str | None) -> Job:
        files = self.files(job.id)
        files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        job_description = {
            "id": job.id,
            "ledger": str(self._lab.settings.ledger),
            "deadline": job.deadline,
            "allow_env": list(self._lab.settings.allow_env),
            "platform": self._lab.platform,
            "spec": spec.as_json(),
        }
        files.spec.write_text(json.dumps(job_description), encoding="utf-8")
        extra = {UPSTREAM_KEY: key} if key else {}
        env = process.clean_environment(
            extra, allow=(*_CACHE_VARIABLES, *CONTAINER_VARIABLES, *self._lab.settings.allow_env)
        )
        try:
            pid = process.spawn_detached(
                process.own_module_command("evals.runner.supervisor", str(files.root)),
                cwd=files.root,
                env=env,
                log=files.log,
            )
        except BaseException:
            self._mark_crashed(job, "its supervisor could not be started")
            self._lab.ledger.correct(job.id, self._lab.platform, float(job.progress.get("cost") or 0.0))
            raise
        # The supervisor may have written its pid already. Only a row without a pid is updated.
        with self._lab.ledger.transaction() as db:
            db.execute("UPDATE jobs SET pid = ? WHERE id = ? AND pid IS NULL", (pid, job.id))
        return self.get(job.id)

    def get(self, id: str) -> Job:
        """Return one job of this workspace in its present state. Raises EvalError (`eval-not-found`)."""
        job = self._lab.ledger.job(id)
        if job is None or job.workspace != self._lab.key:
            newest = ", ".join(j.id for j in self.list()[:5]) or "none yet"
            raise EvalError(
                f"there is no evaluation of that id in this workspace (newest: {newest})",
                fix=Fix("Call ", NamedCall("watch_run"), " without an id to list them."),
                code="eval-not-found",
            )
        return self._reconciled(job)

    def list(self, environment: str | None = None) -> list[Job]:
        """Return the jobs of this workspace, newest first."""
        self.reconcile()
        return self._lab.ledger.jobs(self._lab.key, environment=environment)

    def spec(self, job: Job) -> EvalSpec:
        """Return the specification of a job. Raises EvalError if a newer version wrote the job."""
        try:
            return EvalSpec.from_json(job.spec)
        except (TypeError, KeyError, ValueError) as error:
            raise EvalError(
                f"evaluation {job.id} was recorded in a form this version cannot read",
                fix=Fix("Run ", NamedCall("run_eval"), " again."),
                code="eval-unreadable",
            ) from error

    def files(self, id: str) -> JobFiles:
        """Return the paths of a job's files."""
        return JobFiles(self._root / id)

    async def wait(self, id: str, seconds: float, progress: Progress) -> Job:
        """Wait until the job has ended or `seconds` have passed, and return it. Cancelling does not stop the job."""
        until = anyio.current_time() + seconds
        reported: object = None
        while True:
            job = self.get(id)
            completed, planned = job.progress.get("completed", 0), job.progress.get("planned")
            if (completed, job.state) != reported:
                reported = (completed, job.state)
                await progress(float(completed), float(planned) if planned else None, _progress_message(job))
            if job.state not in LIVE_STATES or anyio.current_time() >= until:
                return job
            await anyio.sleep(min(_POLL, max(0.0, until - anyio.current_time())))

    async def stop(self, id: str) -> Job:
        """Ask the supervisor to end the job, and wait a while until it has ended.

        A job that has ended already is returned as it is. One that is still live was asked, and ends: its rollouts may
        have containers that take long to remove. Raises EvalError (`eval-not-stopping`) if nobody could be asked.
        """
        job = self.get(id)
        asked = False
        if job.state in LIVE_STATES and job.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(job.pid, signal.SIGTERM)
                asked = True
        job = await self.wait(id, _STOP_WAIT, _ignore_progress)
        if job.state in LIVE_STATES and not asked:
            raise EvalError(
                f"evaluation {id} could not be asked to end, because its process did not begin within "
                f"{_STOP_WAIT:g} seconds",
                fix=Fix("Call ", NamedCall("control_run"), " with stop again; its deadline ends it in any case."),
                code="eval-not-stopping",
            )
        return job

    def rollouts(self, id: str) -> Iterator[Rollout]:
        """Yield the finished rollouts of a job in the order in which they finished."""
        return read_rollouts(self.results_path(id))

    def results_path(self, id: str) -> Path:
        """Return the results file of a job. Raises EvalError (`results-missing`) if no rollout finished."""
        job = self.get(id)
        results = self.files(job.id).results()
        if results is None and job.progress.get("completed") and not self.files(job.id).root.exists():
            raise EvalError(
                f"the rollouts of evaluation {id} were deleted to free space; its verdict is still known",
                fix=Fix("Call ", NamedCall("run_eval"), " again for new rollouts, which costs what they cost."),
                code="results-missing",
            )
        if results is None:
            raise EvalError(
                f"evaluation {id} has no finished rollout",
                fix=Fix(
                    "Call ", NamedCall("watch_run", id=...).shown("watch_run with its id"), " to see how it stands."
                ),
                code="results-missing",
                next=(Next("watch_run", "how it stands", {"id": id}),),
            )
        return results

    def reconcile(self) -> None:
        """Mark jobs of this workspace as crashed if their supervisor is gone."""
        process.reap_detached()
        for state in LIVE_STATES:
            for job in self._lab.ledger.jobs(self._lab.key, state=state):
                self._reconciled(job)

    def _reconciled(self, job: Job) -> Job:
        """Return the job. A live job whose supervisor is gone is marked as crashed first."""
        if job.state not in LIVE_STATES:
            return job
        if job.pid is not None and not process.is_alive(job.pid):
            return self._mark_crashed(job, "its supervisor died")
        if job.lease < time.time():
            # A lease also expires while the machine sleeps, and seems expired after the clock was set forward. A living
            # supervisor then renews the lease within a second.
            if job.pid is not None and self._supervises(job.pid, job):
                return job
            return self._mark_crashed(job, "its supervisor stopped answering")
        return job

    def _supervises(self, pid: int, job: Job) -> bool:
        """Whether a living process is the job's supervisor, and not another program with the same process id."""
        command = process.command_line(pid)
        if command is None:
            return process.is_alive(pid) and job.lease > time.time() - 2 * START_LEASE
        return str(self.files(job.id).root) in command

    def _mark_crashed(self, job: Job, reason: str) -> Job:
        with self._lab.ledger.transaction() as db:
            row = db.execute("SELECT state, pid, lease, progress FROM jobs WHERE id = ?", (job.id,)).fetchone()
            # The row may have changed since it was read, because the job ended or was started again.
            if row is not None and row["state"] in LIVE_STATES and (row["pid"], row["lease"]) == (job.pid, job.lease):
                cause = cause_of_errors(self._log(job.id), self._root)
                # The row may be older than the last requests, and knows nothing of those that still ran.
                progress = AdmittedCosts(self.files(job.id).admitted).at_least(json.loads(row["progress"]))
                progress |= {"reason": reason, "cause": cause}
                db.execute(
                    "UPDATE jobs SET state = 'crashed', progress = ? WHERE id = ?", (json.dumps(progress), job.id)
                )
        return self._lab.ledger.job(job.id) or job

    def _log(self, id: str) -> str:
        """Return the end of the supervisor's log, which holds messages of a supervisor that could not start."""
        with suppress(OSError):
            return self.files(id).log.read_text(encoding="utf-8", errors="replace")[-8000:]
        return ""


async def _ignore_progress(done: float, total: float | None, message: str) -> None:
    """A progress callback that does nothing."""


def _progress_message(job: Job) -> str:
    completed, planned = job.progress.get("completed", 0), job.progress.get("planned", 0)
    errors = job.progress.get("errors") or 0
    text = f"{completed} of {planned} rollouts" if job.state != "starting" else "starting"
    return text + (f", {errors} failed" if errors else "")
