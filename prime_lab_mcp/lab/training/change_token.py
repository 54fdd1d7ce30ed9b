"""A short text for the state of a run or an evaluation, which changes when the state does. It is cheap to poll."""

from __future__ import annotations

import re

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab

_ADDRESS = re.compile(r"lab://(?:runs/([^/?#]+)|evals/([^/?#]+)/report(?:\.html)?)")
_WAITING = ("QUEUED", "PENDING")


async def change_token(lab: Lab, address: str) -> str | None:
    """A text that changes with the state of `lab://runs/ID` or `lab://evals/ID/report`.

    None for an address that never changes, and while the platform cannot be reached.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    if match[2] is not None or lab.ledger.job(match[1]) is not None:
        return _job_token(lab, match[2] or match[1])
    try:
        run = await lab.prime.train_get(match[1])
        status = str(run.get("status") or "UNKNOWN").upper()
        if status in _WAITING:
            return f"{status} {run.get('runs_ahead')}"
        step = (await lab.prime.train_progress(match[1])).get("latest_step") if status == "RUNNING" else None
    except LabError as error:
        return "DELETED" if error.code == "platform-not-found" else None
    return f"{status} {step}"


def _job_token(lab: Lab, id: str) -> str | None:
    from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs  # late: the server imports this module at its start

    try:
        job = EvaluationJobs(lab).get(id)
    except LabError:
        return None
    return f"{job.state} {job.progress.get('completed')}"
