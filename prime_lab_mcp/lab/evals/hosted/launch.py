"""Starts the supervisor process of a hosted evaluation, also for an evaluation whose earlier supervisor died."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.evals.hosted.plan import HostedPlan, HostedStanding
from prime_lab_mcp.lab.evals.runner.command import UPSTREAM_KEY, JobFiles
from prime_lab_mcp.lab.evals.runner.jobs import START_LEASE, EvaluationJobs, starting_job
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Job

_SLACK = 900.0
"""Seconds that a job waits beyond the platform's time limit, for example while the evaluation is queued."""
_PRIME_VARIABLE = re.compile(r"^PRIME_(?!LAB_)[A-Z0-9_]+$")
_KEY = "PRIME_API_KEY"


def variables_file(files: JobFiles) -> Path:
    """Return the file with the platform's address for the supervisor of a rehearsal.

    The port of the rehearsal platform changes with every start of the server.
    """
    return files.root / "platform.json"


async def start_hosted(lab: Lab, planned: HostedPlan, *, confirmed: bool) -> Job:
    """Start the job of a planned evaluation, or attach to the job that follows it already.

    The highest cost is reserved before any request goes out, and replaced by the cost of the samples at the end.
    `confirmed` says whether a person agreed. Raises EvalError (`over-cap`, `intent-changed`), ProcessError.
    """
    standing = planned.standing
    if standing.job is not None and standing.state in ("live", "known"):
        await refresh_variables(lab, standing.job)
        return standing.job
    with lab.ledger.transaction():
        intent = lab.ledger.intent(standing.key, lab.platform)
        if intent is None or intent.state == "open":
            _reserve(lab, standing, planned.bound, confirmed)
    job = _take_over(lab, planned.spec, standing) if standing.job is not None else _create_job(lab, planned.spec)
    return job if job.state != "starting" or job.pid is not None else await _launch(lab, job, planned)


def _reserve(lab: Lab, standing: HostedStanding, amount: float | None, confirmed: bool) -> None:
    ledger, platform = lab.ledger, lab.platform
    if not confirmed and ledger.unasked(platform) + (amount or 0.0) > ASK_AFTER + 1e-9:
        raise EvalError(
            f"other evaluations started meanwhile, and those that nobody was asked about reach ${ASK_AFTER:.0f}",
            fix=Fix("Call ", NamedCall("run_eval"), " again; it asks the user."),
            code="intent-changed",
        )
    purpose = f"hosted evaluation {standing.name}"
    if not ledger.reserve(standing.key, amount, purpose, platform, lab.limits.max_spend, asked=confirmed):
        raise EvalError(
            f"this may cost up to ${amount or 0.0:.2f}, which exceeds the spending cap",
            fix="Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
            code="over-cap",
        )


async def refresh_variables(lab: Lab, job: Job) -> None:
    """Write the present address of the rehearsal platform for the job's supervisor. Does nothing outside rehearsals."""
    files = EvaluationJobs(lab).files(job.id)
    if lab.settings.rehearsal and files.root.is_dir():
        _write(variables_file(files), dict(await lab.platform_variables()))


def _create_job(lab: Lab, spec: EvalSpec) -> Job:
    fresh = starting_job(lab, spec, spec.deadline_s + _SLACK, on_platform=True)
    job = lab.ledger.create_job(fresh)
    # If another caller created the job of this intent, that caller starts it. A pid of -1 makes this caller attach.
    return job if job.id == fresh.id else dataclasses.replace(job, pid=job.pid or -1)


def _take_over(lab: Lab, spec: EvalSpec, standing: HostedStanding) -> Job:
    """Claim a job whose supervisor ended while the evaluation continued. Exactly one caller gets the job."""
    assert standing.job is not None
    now = time.time()
    lease, deadline = now + START_LEASE, now + spec.deadline_s + _SLACK
    with lab.ledger.transaction() as db:
        claimed = db.execute(
            "UPDATE jobs SET state = 'starting', pid = NULL, lease = ?, deadline = ?"
            " WHERE id = ? AND state IN ('crashed', 'stopped')",
            (lease, deadline, standing.job.id),
        )
    if claimed.rowcount != 1:
        return EvaluationJobs(lab).get(standing.job.id)
    return dataclasses.replace(standing.job, state="starting", pid=None, lease=lease, deadline=deadline)


async def _launch(lab: Lab, job: Job, planned: HostedPlan) -> Job:
    spec, standing, entry = planned.spec, planned.standing, planned.subject.entry
    files = EvaluationJobs(lab).files(job.id)
    files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    await refresh_variables(lab, job)
    description = {
        "id": job.id,
        "ledger": str(lab.settings.ledger),
        "deadline": job.deadline,
        "spec": spec.as_json(),
        "workspace": str(lab.settings.workspace),
        "state_dir": str(lab.settings.state_dir),
        "rehearsal": lab.settings.rehearsal,
        "key": standing.key,
        "name": standing.name,
        "bound": planned.bound,
        "latest": {"semantic_version": entry.version, "content_hash": entry.content_hash},
    }
    _write(files.spec, description)
    try:
        pid = process.spawn_detached(
            process.own_module_command("evals.hosted.supervisor", str(files.root)),
            cwd=files.root,
            env=_environment(),
            log=files.log,
        )
    except BaseException:
        lab.ledger.update_job(job.id, state="crashed", progress={**job.progress, "reason": "it could not be started"})
        raise
    with lab.ledger.transaction() as db:
        db.execute("UPDATE jobs SET pid = ? WHERE id = ? AND pid IS NULL", (pid, job.id))
    return EvaluationJobs(lab).get(job.id)


def _environment() -> dict[str, str]:
    """Return the environment variables of the supervisor, which runs `prime`.

    The platform's key goes into the variable `UPSTREAM_KEY`, not into PRIME_API_KEY: the supervisor reads that variable
    and overwrites it at once, so that /proc does not show the key to other processes.
    """
    variables = {k: v for k, v in os.environ.items() if _PRIME_VARIABLE.match(k) and k != _KEY}
    key = os.environ.get(_KEY)
    return process.installer_environment({**variables, **({UPSTREAM_KEY: key} if key else {})})


def _write(path: Path, content: Mapping[str, object]) -> None:
    temporary = path.with_suffix(".part")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)
