"""Resumes or restarts a training run at most once per question, and stops or pauses a run.

A resumed run is a new run under the old name. A restarted run keeps its id and repeats the steps since its last
checkpoint. Both spend money again, so both count against the cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import tomlkit

from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.configs.config import taskset_identity
from prime_lab_mcp.lab.hub.ownership import failed_verdicts
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.once import Lookup, Once
from prime_lab_mcp.lab.training.continued_cost import (
    ContinuedCost,
    cautions_of_config,
    read_submitted,
    require_agreed,
)
from prime_lab_mcp.lab.training.disclosures import disclosure_sentences
from prime_lab_mcp.lab.training.resumption import (
    AlreadyContinuedError,
    ControlIntent,
    ResumedRun,
    continuation_of,
    control_key,
    is_live,
    no_such_run,
    present_cost,
    present_run,
    resume_attempts,
    resume_key,
    status_of,
)
from prime_lab_mcp.lab.training.submission import TERMINAL_STATUSES, run_status
from prime_lab_mcp.lab.training.watch import note_ended

Action = Literal["resume", "restart"]
_NEEDS = {"pause": "RUNNING", "restart": "RUNNING", "resume": "PAUSED"}
_PAUSABLE_STEPS = 400
"""A step of a rehearsed run takes a quarter of a second, so that these last over a minute and a half. 27 steps were
over before a call could pause them."""
_BEGINS = frozenset({"QUEUED", "PENDING"})


@dataclass(frozen=True, slots=True)
class RunControl:
    """A planned resume or restart. `continued_as` is the id of a run that already continues this one."""

    action: Action
    id: str
    key: str
    question: str
    cost: ContinuedCost
    run: Mapping[str, Any]
    continued_as: str | None = None
    cautions: tuple[str, ...] = ()
    """Those of the question of the submission, for the config as it was submitted."""
    file: str = ""
    """That config; empty where it is not here any more."""


@dataclass(frozen=True, slots=True)
class ControlledRun:
    """The run that continues. `was_sent` is False if the run already continued, so that nothing was sent."""

    id: str
    price_per_hour: float | None
    was_sent: bool


async def prepare_control(lab: Lab, action: Action, id: str) -> RunControl:
    """Plan a resume or restart with its cost, or return the run that an earlier one started. Raises LabError."""
    run = await present_run(lab, id)
    return await (_prepare_resume(lab, id, run) if action == "resume" else _prepare_restart(lab, id, run))


async def carry_out_control(lab: Lab, control: RunControl) -> ControlledRun:
    """Resume or restart a run as planned. Raises LabError."""
    continued_as = control.continued_as
    if continued_as is None and control.action == "resume":
        continued_as = await continuation_of(lab, control.id)  # a submission may have continued it since the question
    if continued_as is not None:
        return ControlledRun(continued_as, None, False)
    cost = await present_cost(lab, control.action, control.id)
    require_agreed(control.cost, cost)
    intent = _INTENTS[control.action](lab, control.id, control.run, control.key, cost)
    try:
        settled = await Once(lab.ledger).send(intent)
    except AlreadyContinuedError as error:
        return ControlledRun(error.continued_as, None, False)
    if settled is None:
        raise intent.in_flight()
    return ControlledRun(settled.value.id, settled.value.price_per_hour if settled.sent else None, settled.sent)


async def pause_run(lab: Lab, id: str) -> None:
    """Ask the platform to pause a RUNNING run at its next checkpoint. Raises LabError."""
    _require(lab, "pause", id, await present_run(lab, id))
    await lab.prime.train_pause(id)


def _require(lab: Lab, action: str, id: str, run: Mapping[str, Any]) -> None:
    """Check that a run's status permits an action, and record a run that has ended. Raises BadInput."""
    recorded = _recorded(lab, id)
    note_ended(lab, recorded, status_of(run))
    require_status(action, id, run, recorded, rehearsed=lab.settings.rehearsal)


def require_status(
    action: str, id: str, run: Mapping[str, Any], recorded: Run | None, *, rehearsed: bool = False
) -> None:
    """Check that a run's status permits an action. `rehearsed` says that the run is one of a rehearsal. Raises
    BadInput."""
    status, needed = status_of(run), _NEEDS[action]
    if status == needed:
        return
    watch = Next("watch_run", "how it stands", {"id": id})
    fix = Fix("Wait with ", NamedCall("watch_run"), f" until it is {needed}, then call again.")
    calls: tuple[Next, ...] = (watch,)
    if status == "COMPLETED":
        fix = Fix(f"The run made all its steps, so that nothing is left to {action}. Its checkpoints stay.")
        if rehearsed and action == "pause":
            longer = _longer_run(recorded)
            fix += Fix(
                " In a rehearsal, a run lasts seconds, whatever it would really last. A config with more steps leaves "
                "time to pause: ",
                longer,
                " writes one. Submit that and pause at once.",
            )
            calls = (*_longer_calls(longer), watch)
    elif status in TERMINAL_STATUSES:
        again = submission_again(recorded)
        fix = Fix(
            "A run that ended cannot go on; start one anew with ",
            NamedCall("submit_training", again=True),
            ", or use its checkpoint.",
        )
        calls = (*((again,) if again is not None else ()), watch)
    elif action == "resume":
        fix = Fix(
            "Nothing has to be resumed: call ",
            NamedCall("watch_run", id=...).shown("watch_run with its id"),
            " to see how it stands.",
        )
    raise BadInput(
        f"run {id} is {status}; {action} needs it {needed}",
        fix=fix,
        code="run-not-paused" if needed == "PAUSED" else "run-not-running",
        next=calls,
    )


def _longer_run(recorded: Run | None) -> NamedCall:
    """The call that writes the config of a rehearsed run with enough steps to be paused."""
    config = recorded.config_path if recorded is not None else None
    return NamedCall("write_training_config", based_on=config or ..., steps=_PAUSABLE_STEPS)


def _longer_calls(longer: NamedCall) -> tuple[Next, ...]:
    """The same call as a next one; none where no config is known here."""
    if longer.arguments["based_on"] is ...:
        return ()
    return (Next(longer.tool, "a run of the rehearsal that lasts long enough to be paused", dict(longer.arguments)),)


def submission_again(recorded: Run | None) -> Next | None:
    """The call that starts a run's config once more; None for a run whose config is not known here."""
    if recorded is None or recorded.config_path is None:
        return None
    why = "starts its config once more from the beginning, after asking"
    return Next("submit_training", why, {"config": recorded.config_path, "again": True})


# Resume


async def _prepare_resume(lab: Lab, id: str, run: Mapping[str, Any]) -> RunControl:
    key = resume_key(lab, id, resume_attempts(lab, id))
    earlier = await Once(lab.ledger).settle(ResumedRun(lab, id, run, key))
    ended = ""
    if earlier is not None and not _goes_on(status := await run_status(lab, earlier.id)):
        ended = f" It was resumed before as {earlier.id}, which is {status}: those steps are paid for again."
        key, earlier = resume_key(lab, id, resume_attempts(lab, id) + 1), None
    continued_as = earlier.id if earlier is not None else await continuation_of(lab, id)
    if continued_as is not None:
        return RunControl(
            "resume", id, key, f"Run {id} was resumed as {continued_as}.", ContinuedCost(), run, continued_as
        )
    _require(lab, "resume", id, run)
    cost = await present_cost(lab, "resume", id)
    question = (
        f"Resume training run {id} from its checkpoint as a new run: {cost.sentence} Billing is by the hour, and "
        f"nothing ends the run at a sum of money.{ended}"
        f"{_unproven_sentence(lab, id)}"
    )
    return _with_config(lab, RunControl("resume", id, key, question, cost, run))


# Restart


async def _prepare_restart(lab: Lab, id: str, run: Mapping[str, Any]) -> RunControl:
    attempt = 1
    while True:
        key = control_key(lab, "restart", id, str(attempt))
        intent = lab.ledger.intent(key, lab.platform)
        if intent is None or intent.state != "done":
            break
        attempt += 1
    if await Once(lab.ledger).settle(RestartedRun(lab, id, run, key)) is not None:
        return RunControl("restart", id, key, f"Run {id} was restarted.", ContinuedCost(), run, id)
    _require(lab, "restart", id, run)
    cost = await present_cost(lab, "restart", id)
    question = (
        f"Restart training run {id} from its last checkpoint: the steps since then are done and paid for again: "
        f"{cost.sentence}{_unproven_sentence(lab, id)}"
    )
    return _with_config(lab, RunControl("restart", id, key, question, cost, run))


class RestartedRun(ControlIntent):
    """The intent to restart a run from its last checkpoint."""

    async def send(self) -> Run:
        await self._lab.prime.train_restart(self._id)
        return self._row()

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[Run]:
        """Recognise a restart: the run waits to begin again, or its latest step went back."""
        reached = finite_number((await self._lab.prime.train_progress(self._id)).get("latestStep"))
        if before is None:
            return Lookup(None, {"step": reached})
        status = await run_status(self._lab, self._id)
        earlier = before.get("step")
        back = earlier is not None and (reached is None or reached < earlier)
        return Lookup(self._row() if status in _BEGINS or (status == "RUNNING" and back) else None)

    def _row(self) -> Run:
        return self.from_result({"id": self._id})

    def record(self, value: Run) -> None:
        purpose = f"training run {value.id}, restarted"
        most = value.max_cost if self._cost is None else self._cost.max_cost
        self._lab.ledger.commit_spend(self.key, most, purpose, self.platform)

    def in_flight(self) -> LabError:
        return PrimeError("another server is restarting it", fix="Call again in a minute.", code="restart-in-flight")

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether run {self._id} was restarted is not known: {why}",
            fix=Fix(
                "Call ",
                NamedCall("control_run"),
                f" again in {max(10, round(seconds) + 5)} seconds; it looks at the run before it sends anything.",
            ),
            code="restart-outcome-unknown",
        )


# Stop


async def stop_run(lab: Lab, id: str) -> tuple[str, bool]:
    """Stop a run. Returns its status, and whether the run had ended before. A paused run may stay PAUSED. Raises
    LabError."""
    status = await run_status(lab, id)
    if status == "DELETED":
        raise no_such_run(id)
    if status in TERMINAL_STATUSES:
        note_ended(lab, _recorded(lab, id), status)
        return status, True
    await lab.prime.train_stop(id)
    status = await run_status(lab, id)
    note_ended(lab, _recorded(lab, id), status)
    return status, False


def _with_config(lab: Lab, control: RunControl) -> RunControl:
    """The plan with the config of the run, and with what the question of its submission named."""
    config = read_submitted(_recorded(lab, control.id))
    if config is None:
        return control
    question = " ".join(filter(None, (control.question, *disclosure_sentences(lab, config))))
    shown = tomlkit.dumps(config.table).strip()
    return replace(control, question=question, cautions=cautions_of_config(lab, config), file=shown)


def _unproven_sentence(lab: Lab, id: str) -> str:
    """A warning for the question: the run was started elsewhere, or evidence about its environments failed since.

    The text is empty if neither holds.
    """
    runs = lab.ledger.runs(id=id, platform=lab.platform)
    if not runs:
        return " It was not started through this server: nothing about its environments is proven here."
    failed: list[str] = []
    named = runs[0].data.get("environments")
    for environment in named if isinstance(named, list) else ():
        owner, name, version = taskset_identity(str(environment))
        push = lab.newest_push(owner, name, version) if owner and version else None
        verdicts = failed_verdicts(lab, push.source) if push is not None else ()
        failed += [f"{verdict} failed on the files of {environment}" for verdict in verdicts]
    return f" Since it was proven, {'; '.join(failed)}." if failed else ""


def _recorded(lab: Lab, id: str) -> Run | None:
    return next(iter(lab.ledger.runs(id=id, platform=lab.platform)), None)


def _goes_on(status: str) -> bool:
    """True for a run that needs no other resume: it is live, or it made all its steps."""
    return is_live(status) or status == "COMPLETED"


_INTENTS: Mapping[Action, type[ResumedRun] | type[RestartedRun]] = {"resume": ResumedRun, "restart": RestartedRun}
