"""How a run or an evaluation stands, as one short word: cheap enough to be asked again and again."""

from __future__ import annotations

import re

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab

_ADDRESS = re.compile(r"lab://(?:runs/([^/?#]+)|evals/([^/?#]+)/report(?:\.html)?)")
_BETWEEN = ("QUEUED", "PENDING")


async def pulse(lab: Lab, address: str) -> str | None:
    """Of `lab://runs/ID` or `lab://evals/ID/report`: a word that changes when the run does.

    None where the platform cannot be asked now, and for addresses that never change.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    if found[2] is not None or lab.ledger.job(found[1]) is not None:
        return _job(lab, found[2] or found[1])
    try:
        run = await lab.prime.train_get(found[1])
        status = str(run.get("status") or "UNKNOWN").upper()
        if status in _BETWEEN:
            return f"{status} {run.get('runs_ahead')}"
        step = (await lab.prime.train_progress(found[1])).get("latest_step") if status == "RUNNING" else None
    except LabError as error:
        return "DELETED" if error.code == "platform-not-found" else None
    return f"{status} {step}"


def _job(lab: Lab, id: str) -> str | None:
    try:
        job = lab.evals.get(id)
    except LabError:
        return None
    return f"{job.state} {job.progress.get('completed')}"
