"""Where the intent to start a run stands, and settling what became of a submission whose answer was lost.

A claim in the ledger is taken before anything is sent. Whoever finds a claim without an outcome looks the run up by its
name, and frees the claim only when nothing that was sent can still arrive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import anyio

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.cost import cost_of
from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.records import IntentState
from prime_lab_mcp.lab.runs.naming import copy_path, intent_key, run_name
from prime_lab_mcp.lab.runs.record import remember
from prime_lab_mcp.lab.settings import Platform

TERMINAL = frozenset({"COMPLETED", "FAILED", "STOPPED"})
"""A run in these has ended for good; a PAUSED one can be resumed."""
SETTLE_SECONDS = 450.0
"""prime may take 300 s over a submission, and what it sent last may arrive `LANDING_SECONDS` later."""
LANDING_SECONDS: Mapping[Platform, float] = {"prime": 150.0, "rehearsal": 5.0}
"""How long after the end of prime its request may still create a run: prime itself gives up one after 120 s."""
WAIT_SECONDS = 90.0
"""A submission that another call makes at this moment is waited for this long."""
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an intent stands: `fresh` may be sent, `existing` is a run with `id` and `status`."""

    state: Literal["fresh", "existing"]
    key: str
    attempt: int
    name: str
    id: str | None = None
    status: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL or self.status == "DELETED"


async def standing(lab: Lab, config: Config, *, resume_from: str | None = None, again: bool = False) -> Standing:
    """Look the intent up, here and where needed on the platform. Raises PrimeError while that cannot be asked."""
    attempt = _latest(lab, config, resume_from, again)
    key = intent_key(lab, config, resume_from, attempt)
    name = run_name(config, key)
    known = await concluded(lab, key, name)
    if known is None or known.state == "open":
        return Standing("fresh", key, attempt, name)
    if known.state == "done":
        id: str | None = str(known.result["id"])
    else:
        id = await _settled(lab, config, Standing("fresh", key, attempt, name), known, resume_from)
    if id is None:
        return Standing("fresh", key, attempt, name)
    found = Standing("existing", key, attempt, name, id, await status_of(lab, id))
    if again and found.ended:
        key = intent_key(lab, config, resume_from, attempt + 1)
        return Standing("fresh", key, attempt + 1, run_name(config, key))
    return found


def _latest(lab: Lab, config: Config, resume_from: str | None, again: bool) -> int:
    """The attempt that is meant: one that was refused before anything was sent counts only for who asks for it."""
    attempt = 1
    while True:
        after = lab.ledger.intent(intent_key(lab, config, resume_from, attempt + 1), lab.platform)
        if after is None or (after.state == "open" and not again):
            return attempt
        attempt += 1


async def concluded(lab: Lab, key: str, name: str) -> IntentState | None:
    """The intent, once no living server is sending it. Raises PrimeError (`submit-in-flight`) when that takes long."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        known = lab.ledger.intent(key, lab.platform)
        if known is None or known.state != "sent" or not _in_flight(lab, known):
            return known
        if time.monotonic() >= until:
            raise PrimeError(
                f"another server is submitting {name} right now",
                fix="Call submit_training again in a minute; it returns that run.",
                code="submit-in-flight",
            )
        await anyio.sleep(_POLL_SECONDS)


def _in_flight(lab: Lab, known: IntentState) -> bool:
    if "over" in known.result or time.time() - known.at >= SETTLE_SECONDS:
        return False
    return lab.ledger.alive(known.holder)


async def _settled(lab: Lab, config: Config, at: Standing, known: IntentState, resume_from: str | None) -> str | None:
    """What became of a submission whose answer was lost: the run's id, or None when there certainly is none."""
    certain = _certain_from(lab, at.key, known)
    looked = time.time()
    id = await find(lab, at.name)
    if id is not None:
        copy = copy_path(lab, config, at.key)
        remember(
            lab, config, at, Submitted(id, None, None), await cost_of(lab, config), resume_from,
            copy if copy.is_file() else None,
        )  # fmt: skip
        return id
    if looked < certain:
        seconds = max(5, round(certain - looked) + 5)
        raise PrimeError(
            f"whether run {at.name} was created is not known yet; the platform does not list it so far",
            fix=f"Call submit_training again in {seconds} seconds; it looks before it sends.",
            code="submit-outcome-unknown",
        )
    # Only this claim: another server may have settled it meanwhile and be sending again.
    lab.ledger.release(at.key, lab.platform, attempt=known.attempt)
    return None


def _certain_from(lab: Lab, key: str, known: IntentState) -> float:
    """From when on (seconds since the epoch) a run that is not listed does not exist."""
    landing = LANDING_SECONDS[lab.platform]
    over = known.result.get("over")
    if isinstance(over, (int, float)) and known.result.get("by") == known.holder:
        return float(over) + landing  # the server that sent it saw its prime end
    if not isinstance(over, (int, float)):
        over = lab.ledger.over(key, lab.platform, known.attempt, by=f"{os.getpid()}-witness")
    # The server that sent it is gone, and its prime with it (lab/process.py). On the real platform that is not relied
    # on: the state directory may be shared by machines that do not see each other's processes.
    if lab.settings.rehearsal:
        return float(over) + landing
    return max(float(over) + landing, known.at + SETTLE_SECONDS)


async def find(lab: Lab, name: str) -> str | None:
    """Id of the account's run of this name. Raises PrimeError when the platform cannot be asked."""
    found = await lab.prime.train_list(name)
    return str(found[-1]["id"]) if found else None


async def status_of(lab: Lab, id: str) -> str:
    """Status in the platform's words, or DELETED."""
    try:
        return str((await lab.prime.train_get(id)).get("status") or "UNKNOWN").upper()
    except LabError as error:
        if error.code == "platform-not-found":
            return "DELETED"
        raise
