"""Continues a paused run at most once, by a resume or by a submission that names the run.

The two ways are two kinds of intent, and submissions of two configs are two intents. All of them claim the paused run
itself: while the outcome of one is unknown, no other is sent, and after one has started a run, no other is sent while
that run is live.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted, finite_number
from prime_lab_mcp.lab.prime.refusals import ended_by_force, had_no_effect
from prime_lab_mcp.lab.state.ledger.rows import IntentState, Run
from prime_lab_mcp.lab.state.once import AtMostOnce, Lookup, Once
from prime_lab_mcp.lab.training.bound import CostBound
from prime_lab_mcp.lab.training.continuation import continuations
from prime_lab_mcp.lab.training.continued_cost import ContinuedCost, cost_to_go_on, reserved_for
from prime_lab_mcp.lab.training.submission import (
    DELAYS,
    TERMINAL_STATUSES,
    RunStanding,
    RunSubmission,
    find_run,
    record_submitted,
    run_status,
    submitted_result,
)
from prime_lab_mcp.lab.training.watch import seconds_of_time

_SUBMITTED = "submitted"
"""The fact of a claim that holds the row of the run that a submission starts."""


async def continuation_of(lab: Lab, id: str) -> str | None:
    """The id of the live run that this machine started from a paused run, by a resume or a submission; None without
    one."""
    for row in continuations(lab, id):
        if is_live(await run_status(lab, row.id)):
            return row.id
    return None


class AlreadyContinuedError(BadInput):
    """A paused run goes on as the live run `continued_as`."""

    default_code = "run-resumed-already"

    def __init__(self, id: str, continued_as: str) -> None:
        super().__init__(
            f"run {id} goes on as {continued_as}, which is live and billed",
            fix=Fix(
                f"Watch {continued_as} with ",
                NamedCall("watch_run"),
                ", or stop it with ",
                NamedCall("control_run"),
                " and submit again.",
            ),
            next=(
                Next("watch_run", "how the run stands that goes on", {"id": continued_as}),
                Next("control_run", "end the run that goes on", {"id": continued_as, "action": "stop"}),
            ),
        )
        self.continued_as = continued_as


async def require_not_continued(lab: Lab, id: str) -> None:
    """Refuse to continue a paused run that a resume or a submission continued as a run that is live. Raises LabError.

    Also raises while the outcome of a resume is not known.
    """
    key = resume_key(lab, id, resume_attempts(lab, id))
    if lab.ledger.intent(key, lab.platform) is not None:
        await Once(lab.ledger).settle(ResumedRun(lab, id, await present_run(lab, id), key))
    if (continued_as := await continuation_of(lab, id)) is not None:
        raise AlreadyContinuedError(id, continued_as)


class ControlIntent(AtMostOnce[Run]):
    """The intent to resume or restart a run."""

    kind = "control"

    def __init__(self, lab: Lab, id: str, run: Mapping[str, Any], key: str, cost: ContinuedCost | None = None) -> None:
        super().__init__(key, lab.platform, DELAYS[lab.platform])
        self._lab, self._id, self._run, self._cost = lab, id, run, cost

    def had_no_effect(self, error: LabError) -> bool:
        return had_no_effect(error)

    def ended_by_force(self, error: LabError) -> bool:
        return ended_by_force(error)

    def as_result(self, value: Run) -> Mapping[str, Any]:
        return {"id": value.id}

    def from_result(self, result: Mapping[str, Any]) -> Run:
        id = str(result["id"])
        runs = self._lab.ledger.runs(id=id, platform=self.platform)
        return runs[0] if runs else Run(id, "training", id, self._lab.key, self.key, self.platform)


class ResumedRun(ControlIntent):
    """The intent to resume a paused run as a new one."""

    def __init__(self, lab: Lab, id: str, run: Mapping[str, Any], key: str, cost: ContinuedCost | None = None) -> None:
        super().__init__(lab, id, run, key, cost)
        self.subject = _subject(id)

    async def rival(self, state: IntentState) -> AtMostOnce[Run]:
        return await _claimant(self._lab, self._id, state)

    async def require_unchanged_subject(self) -> None:
        if (continued_as := await continuation_of(self._lab, self._id)) is not None:
            raise AlreadyContinuedError(self._id, continued_as)

    async def send(self) -> Run:
        return self._row(await self._lab.prime.train_resume(self._id))

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[Run]:
        """Find the new run among the runs that did not exist before. The new run has the old run's name.

        If the earlier runs were not recorded, a live run counts as the new one if it began after this run paused and
        has the same config.
        """
        name = self._run.get("name")
        same = [r for r in await self._lab.prime.train_list() if r.get("name") == name and r.get("id") != self._id]
        if before is not None and "runs" in before:
            new = [r for r in same if str(r.get("id")) not in before["runs"]]
        else:
            new = [r for r in same if is_live(status_of(r)) and self._began_later(r)]
        if new and self._cost is None:
            self._cost = await present_cost(self._lab, "resume", self._id)
        value = self._row(Submitted(str(new[-1]["id"]), None, None)) if new else None
        return Lookup(value, {"runs": [str(r.get("id")) for r in same]})

    def _began_later(self, other: Mapping[str, Any]) -> bool:
        paused = seconds_of_time(self._run.get("completed_at")) or seconds_of_time(self._run.get("created_at"))
        began = seconds_of_time(other.get("created_at"))
        configs = [r.get("run_config") for r in (self._run, other)]
        return paused is not None and began is not None and began >= paused and configs[0] == configs[1]

    def _row(self, answer: Submitted) -> Run:
        runs = self._lab.ledger.runs(id=self._id, platform=self.platform)
        older = runs[0] if runs else None
        cost = self._cost or ContinuedCost()
        price = finite_number(answer.estimated_cost_per_hour)
        return Run(
            id=answer.id,
            kind="training",
            name=str(self._run.get("name") or answer.id),
            workspace=self._lab.key,
            intent=self.key,
            platform=self.platform,
            config_path=older.config_path if older else None,
            config_sha256=older.config_sha256 if older else None,
            price_per_hour=price if price is not None else cost.price_per_hour,
            max_cost=cost.max_cost,
            data={**(dict(older.data) if older else {}), "resumed_from": self._id},
        )

    def record(self, value: Run) -> None:
        ledger = self._lab.ledger
        ledger.record_run(value)
        ledger.commit_spend(self.key, reserved_for(value), f"training run {value.id}, resumed", self.platform)

    def in_flight(self) -> LabError:
        return PrimeError("another server is resuming it", fix="Call again in a minute.", code="resume-in-flight")

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether run {self._id} was resumed is not known: {why}",
            fix=_look_up_first(seconds),
            code="resume-outcome-unknown",
        )


class ContinuingSubmission(RunSubmission):
    """The intent to submit a config whose run continues a paused one."""

    def __init__(self, lab: Lab, *arguments: Any, resume_from: str, **more: Any) -> None:
        super().__init__(lab, *arguments, resume_from=resume_from, **more)
        self.subject = _subject(resume_from)
        self._continued = resume_from

    def claim_facts(self) -> Mapping[str, Any]:
        return {_SUBMITTED: asdict(self.row_before_sending())}

    async def rival(self, state: IntentState) -> AtMostOnce[Run]:
        return await _claimant(self._lab, self._continued, state)

    async def require_unchanged_subject(self) -> None:
        if (continued_as := await continuation_of(self._lab, self._continued)) is not None:
            raise AlreadyContinuedError(self._continued, continued_as)


def submission_at(
    lab: Lab, config: TrainingConfig, standing: RunStanding, cost: CostBound, copy: Path, resume_from: str | None
) -> RunSubmission:
    """The intent to start a run of a config, which continues the paused run `resume_from` where that is given."""
    parts: dict[str, Any] = {
        "key": standing.key,
        "name": standing.name,
        "attempt": standing.attempt,
        "cost": cost,
        "copy": copy,
    }
    if resume_from is None:
        return RunSubmission(lab, config, **parts)
    return ContinuingSubmission(lab, config, resume_from=resume_from, **parts)


class ClaimedSubmission(AtMostOnce[Run]):
    """The submission of another call that has claimed a paused run. Its outcome can be settled, and it is never sent.

    The row of its run stands in its claim, so that its config need not be here any more.
    """

    kind = RunSubmission.kind

    def __init__(self, lab: Lab, id: str, state: IntentState) -> None:
        super().__init__(state.key, lab.platform, DELAYS[lab.platform])
        self._lab, self._id = lab, id
        self._row = Run(**state.result[_SUBMITTED])

    async def send(self) -> Run:
        raise RuntimeError("the submission of another call is settled, never sent")

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[Run]:
        id = await find_run(self._lab, self._row.name)
        return Lookup(None if id is None else replace(self._row, id=id))

    def had_no_effect(self, error: LabError) -> bool:
        return had_no_effect(error)

    def as_result(self, value: Run) -> Mapping[str, Any]:
        return submitted_result(value)

    def from_result(self, result: Mapping[str, Any]) -> Run:
        return replace(self._row, id=str(result["id"]))

    def record(self, value: Run) -> None:
        record_submitted(self._lab, self.key, value)

    def in_flight(self) -> LabError:
        return PrimeError(
            f"another call is submitting {self._row.name} right now, which goes on from run {self._id}",
            fix="Call again in a minute; what goes on from the run is looked up before anything is sent.",
            code="submit-in-flight",
        )

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether run {self._id} goes on as {self._row.name} is not known: {why}",
            fix=_look_up_first(seconds),
            code="submit-outcome-unknown",
        )


def _look_up_first(seconds: float) -> str:
    return f"Call again in {max(10, round(seconds) + 5)} seconds; before anything is sent, the new run is looked up."


def _subject(id: str) -> str:
    return f"paused run {id}"


async def _claimant(lab: Lab, id: str, state: IntentState) -> AtMostOnce[Run]:
    """The intent of another call that has claimed a paused run. Raises LabError."""
    if state.kind == RunSubmission.kind:
        return ClaimedSubmission(lab, id, state)
    return ResumedRun(lab, id, await present_run(lab, id), state.key)


def resume_attempts(lab: Lab, id: str) -> int:
    """The number of the latest attempt to resume a run, from 1."""
    attempt = 1
    while lab.ledger.intent(resume_key(lab, id, attempt + 1), lab.platform) is not None:
        attempt += 1
    return attempt


def resume_key(lab: Lab, id: str, attempt: int) -> str:
    """The key of an attempt to resume a run."""
    return control_key(lab, "resume", id, str(attempt))


def control_key(lab: Lab, *parts: str) -> str:
    """The key of an intent to resume or restart a run."""
    return hashlib.sha256(json.dumps(["control", *parts, lab.platform]).encode()).hexdigest()


async def present_cost(lab: Lab, action: str, id: str) -> ContinuedCost:
    """Bound the cost of a run that is resumed or restarted. Raises LabError."""
    return await cost_to_go_on(lab, id, under_its_id=action == "restart")


async def present_run(lab: Lab, id: str) -> Mapping[str, Any]:
    """What the platform says of a run. Raises LabError."""
    try:
        return await lab.prime.train_get(id)
    except LabError as error:
        if error.code != "platform-not-found":
            raise
        raise no_such_run(id) from error


def no_such_run(id: str) -> LabError:
    """The error for a run that the account does not have."""
    return LabError(
        f"the account has no run {quote(id, 80)}",
        fix=Fix("Call ", NamedCall("watch_run"), " without an id to list the runs."),
        code="run-not-found",
    )


def status_of(run: Mapping[str, Any]) -> str:
    """The status in the row of a run."""
    return str(run.get("status") or "UNKNOWN").upper()


def is_live(status: str) -> bool:
    """True for a run that is billed, or that can be resumed."""
    return status not in TERMINAL_STATUSES and status != "DELETED"
