"""Sending a run at most once: claim, send, and after an answer that is not known ask the platform by name."""

from __future__ import annotations

from pathlib import Path

import anyio

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.cost import Cost
from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.records import IntentState, Run
from prime_lab_mcp.lab.runs.record import remember
from prime_lab_mcp.lab.runs.secrets import handed_on
from prime_lab_mcp.lab.runs.standing import Standing, concluded, find

_LOOKS = (0.0, 2.0, 5.0)
"""Seconds before each look for a run whose answer was lost: a platform may list it a moment later."""


async def submit(lab: Lab, config: Config, at: Standing, cost: Cost, resume_from: str | None, copy: Path) -> Run | None:
    """Send once; None when another call sent it first (`standing` finds its run). Raises PrimeError."""
    claim = lab.ledger.claim(at.key, "submit", lab.platform)
    if claim.state != "open":
        await concluded(lab, at.key, at.name)
        return None
    try:
        answer = await _sent(lab, config, at, claim, resume_from, copy)
    except BaseException:
        # Whatever ended this: from here on nothing more is sent under this claim (no effect on one that was freed).
        lab.ledger.over(at.key, lab.platform, claim.attempt, by=claim.holder)
        raise
    return remember(lab, config, at, answer, cost, resume_from, copy)


async def _sent(
    lab: Lab, config: Config, at: Standing, claim: IntentState, resume_from: str | None, copy: Path
) -> Submitted:
    try:
        return await lab.prime.train_submit(copy, resume_from=resume_from, secrets=handed_on(lab, config))
    except Refusal as refused:
        if refused.effect == "none":
            lab.ledger.release(at.key, lab.platform, attempt=claim.attempt)
            raise
        return await _recovered(lab, at, claim, refused)


async def _recovered(lab: Lab, at: Standing, claim: IntentState, refused: Refusal) -> Submitted:
    for seconds in (0.0,) if lab.settings.rehearsal else _LOOKS:
        await anyio.sleep(seconds)
        try:
            id = await find(lab, at.name)
        except LabError as error:
            raise _unknown(at, refused) from error
        if id is not None:
            return Submitted(id, None, None)
    # The rehearsal platform is on this machine: once prime has ended by itself, nothing of it is on its way.
    if lab.settings.rehearsal and refused.code != "platform-slow":
        lab.ledger.release(at.key, lab.platform, attempt=claim.attempt)
        raise refused
    raise _unknown(at, refused)


def _unknown(at: Standing, refused: Refusal) -> PrimeError:
    return PrimeError(
        f"whether run {at.name} was created is not known: {refused.message}",
        fix="Call submit_training again in three minutes; it looks the run up before it sends anything.",
        code="submit-outcome-unknown",
    )
