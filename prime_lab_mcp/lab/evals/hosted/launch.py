"""Starts the process that follows a hosted evaluation, and takes over one whose process died."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.hosted.plan import Planned, Standing
from prime_lab_mcp.lab.evals.program import JobFiles, ours
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.supervisor import UPSTREAM_KEY
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job

START_LEASE = 60.0
"""Seconds a new supervisor has to come up."""
_SLACK = 900.0
"""Seconds over the platform's own time limit that we wait for it to end by itself (queueing included)."""
_PRIME_VARIABLE = re.compile(r"^PRIME_(?!LAB_)[A-Z0-9_]+$")
_KEY = "PRIME_API_KEY"


def variables_file(files: JobFiles) -> Path:
    """Where a rehearsal's supervisor finds its platform, which moves to another port when the server starts anew."""
    return files.root / "platform.json"


async def start(lab: Lab, planned: Planned) -> Job:
    """The job of a planned evaluation, started or attached to. Money is counted before anything goes out.

    Raises EvalError (`over-cap`), ProcessError.
    """
    at = planned.standing
    if at.job is not None and at.state in ("live", "known"):
        await refresh(lab, at.job)
        return at.job
    ledger, amount, cap = lab.ledger, planned.bound or 0.0, lab.settings.max_spend
    known = ledger.intent(at.key, lab.platform)
    counted = known is not None and known.state != "open"
    if not counted and not ledger.reserve(at.key, amount, f"hosted evaluation {at.name}", lab.platform, cap):
        raise EvalError(
            f"this may cost up to ${amount:.2f}, which exceeds the spending cap",
            fix="Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
            code="over-cap",
        )
    job = _taken_over(lab, planned.spec, at) if at.job is not None else _created(lab, planned.spec)
    return job if job.state != "starting" or job.pid is not None else await _launch(lab, job, planned)


async def refresh(lab: Lab, job: Job) -> None:
    """Tell a running supervisor of a rehearsal where the platform is now."""
    files = lab.evals.files(job.id)
    if lab.settings.rehearsal and files.root.is_dir():
        _write(variables_file(files), dict(await lab.platform_variables()))


def _created(lab: Lab, spec: EvalSpec) -> Job:
    now = time.time()
    fresh = Job(
        id=f"eval-{secrets.token_hex(4)}", workspace=lab.key, environment=spec.environment, source=spec.source,
        content=spec.content, intent=spec.intent, state="starting", pid=None, lease=now + START_LEASE,
        deadline=now + spec.deadline_s + _SLACK, platform=lab.platform, spec=spec.as_json(),
        progress={"completed": 0, "planned": spec.planned, "errors": 0}, at=now,
    )  # fmt: skip
    job = lab.ledger.create_job(fresh)
    # Somebody else's job of this intent is attached to, whatever its state; its starter starts it.
    return job if job.id == fresh.id else dataclasses.replace(job, pid=job.pid or -1)


def _taken_over(lab: Lab, spec: EvalSpec, at: Standing) -> Job:
    """A job whose supervisor ended before the platform did, claimed by exactly one caller."""
    assert at.job is not None
    now = time.time()
    lease, deadline = now + START_LEASE, now + spec.deadline_s + _SLACK
    with lab.ledger.transaction() as db:
        taken = db.execute(
            "UPDATE jobs SET state = 'starting', pid = NULL, lease = ?, deadline = ?"
            " WHERE id = ? AND state IN ('crashed', 'stopped')",
            (lease, deadline, at.job.id),
        )
    if taken.rowcount != 1:
        return lab.evals.get(at.job.id)
    return dataclasses.replace(at.job, state="starting", pid=None, lease=lease, deadline=deadline)


async def _launch(lab: Lab, job: Job, planned: Planned) -> Job:
    spec, at, entry = planned.spec, planned.standing, planned.subject.entry
    files = lab.evals.files(job.id)
    files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    await refresh(lab, job)
    told = {
        "id": job.id, "ledger": str(lab.settings.ledger), "deadline": job.deadline, "spec": spec.as_json(),
        "workspace": str(lab.settings.workspace), "state_dir": str(lab.settings.state_dir),
        "rehearsal": lab.settings.rehearsal, "key": at.key, "name": at.name,
        "latest": {"semantic_version": entry.version, "content_hash": entry.content_hash},
    }  # fmt: skip
    _write(files.spec, told)
    try:
        pid = process.spawn_detached(
            ours("evals.hosted.supervisor", str(files.root)), cwd=files.root, env=_environment(), log=files.log
        )
    except BaseException:
        lab.ledger.update_job(job.id, state="crashed", progress={**job.progress, "reason": "it could not be started"})
        raise
    with lab.ledger.transaction() as db:
        db.execute("UPDATE jobs SET pid = ? WHERE id = ? AND pid IS NULL", (pid, job.id))
    return lab.evals.get(job.id)


def _environment() -> dict[str, str]:
    """What `prime` needs; its key goes by the variable that the supervisor wipes."""
    own = {k: v for k, v in os.environ.items() if _PRIME_VARIABLE.match(k) and k != _KEY}
    key = os.environ.get(_KEY)
    return process.installer_environment({**own, **({UPSTREAM_KEY: key} if key else {})})


def _write(path: Path, content: Mapping[str, object]) -> None:
    part = path.with_suffix(".part")
    with suppress(FileNotFoundError):
        part.unlink()
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)
