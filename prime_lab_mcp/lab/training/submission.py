"""Submits a training run at most once, under a name that identifies the submission.

A submission claims its intent, sends the run, and settles a lost answer by looking the run up by name. A run's name
ends in eight hex digits of its intent, so after a timeout or a crash the platform itself shows whether the run exists.
While the platform cannot be reached, nothing is sent again. The submitted file is a copy of the config with that name.

One transaction records the run, its bound against the cap, and the outcome of its intent.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.base.errors import LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.configs.config import TrainingConfig, text_with_name
from prime_lab_mcp.lab.configs.older_platforms import require_same_reading
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.prime.refusals import ended_by_force, had_no_effect
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.once import AtMostOnce, Delays, Lookup, Once
from prime_lab_mcp.lab.training.bound import CostBound, cost_of
from prime_lab_mcp.lab.training.card import submission_facts
from prime_lab_mcp.lab.training.continued_cost import reserved_for
from prime_lab_mcp.lab.training.env_files import ENV_FILE_CODES, read_env_files, sent_env_files
from prime_lab_mcp.lab.training.keys import forwarded_keys


def intent_key(lab: Lab, config: TrainingConfig, resume_from: str | None, attempt: int) -> str:
    """Hash the identity of a submission: the exact file, its name, the run that it continues, and the attempt."""
    parts = ["submit", config.sha256, config.name, resume_from, attempt, lab.platform]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_name(config: TrainingConfig, key: str) -> str:
    """The run's name on the platform: the config's name and eight hex digits of the intent."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", config.name)[:48].strip("-") or "run"
    return f"{stem}-{key[:8]}"


def sent_copy_path(lab: Lab, config: TrainingConfig, key: str) -> Path:
    """The path to which `write_sent_copy` writes the config."""
    return _root(lab, key) / config.path.resolve().relative_to(lab.workspace.root)


def write_sent_copy(lab: Lab, config: TrainingConfig, name: str, key: str) -> Path:
    """Write the validated config under the run's name into the state directory. Raises BadInput.

    Env files that the config names are put beside the copy only while it is sent (`env_files.sent_env_files`).
    """
    read_env_files(config, lab.workspace.root)  # raises for a file that could not be sent
    copy = sent_copy_path(lab, config, key)
    copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two calls at once write the same bytes. The rename keeps `prime` from reading a half-written file.
    partial = copy.with_name(f".{copy.name}.{os.getpid()}.{os.urandom(4).hex()}")
    partial.write_bytes(text_with_name(config.text, name).encode("utf-8"))
    partial.replace(copy)
    return copy


async def write_checked_copy(lab: Lab, config: TrainingConfig, name: str, key: str) -> Path:
    """Write the copy that is sent, after the parser of `prime` has read its text like the checks read the config.

    The check compared the two readings of the file. Another name at its top is another text, which the old parser may
    read otherwise. Raises BadInput.
    """
    await require_same_reading(lab, text_with_name(config.text, name), config.path.name)
    return write_sent_copy(lab, config, name, key)


def _root(lab: Lab, key: str) -> Path:
    return lab.settings.state_dir / "runs" / key[:16]


def run_row(
    lab: Lab,
    config: TrainingConfig,
    answer: Submitted,
    cost: CostBound,
    *,
    key: str,
    name: str,
    attempt: int,
    resume_from: str | None,
    copy: Path | None,
) -> Run:
    """The ledger row of a run that the platform created for intent `key`. `copy` is the config as it was sent."""
    data: dict[str, Any] = {
        "model": config.model,
        "environments": [s.id for s in config.sources],
        "max_steps": config.max_steps,
        "gpus": config.gpus,
        "gpu_type": answer.gpu_type or config.gpu_type,
        "attempt": attempt,
        "max_hours": cost.hours,
        "card": submission_facts(lab, config, key, resume_from),
    }
    if resume_from:
        data["resumed_from"] = resume_from
    if copy is not None:
        data |= {"copy": str(copy), "copy_sha256": hashlib.sha256(copy.read_bytes()).hexdigest()}
    price = answer.estimated_cost_per_hour if answer.estimated_cost_per_hour is not None else cost.price_per_hour
    return Run(
        id=answer.id,
        kind="training",
        name=name,
        workspace=lab.key,
        intent=key,
        platform=lab.platform,
        config_path=config.path.resolve().relative_to(lab.workspace.root).as_posix(),
        config_sha256=config.sha256,
        price_per_hour=price,
        max_cost=cost.max_cost,
        data=data,
    )


DELAYS: Mapping[Platform, Delays] = {
    # A `prime` command takes at most 300 s and gives up one request after 120 s.
    "prime": Delays(limit=300.0, landing=150.0, landing_after_failure=150.0, wait=90.0, looks=(0.0, 2.0, 5.0)),
    # The rehearsal platform is on this machine: no request is pending once `prime` has ended by itself.
    "rehearsal": Delays(limit=300.0, landing=5.0, landing_after_failure=0.0, wait=90.0),
}


class RunSubmission(AtMostOnce[Run]):
    """One attempt to start a run of a config. Sending needs `cost` and `copy`; settling does not."""

    kind = "submit"

    def __init__(
        self,
        lab: Lab,
        config: TrainingConfig,
        *,
        key: str,
        name: str,
        attempt: int,
        resume_from: str | None = None,
        cost: CostBound | None = None,
        copy: Path | None = None,
    ) -> None:
        super().__init__(key, lab.platform, DELAYS[lab.platform])
        self.name = name
        self._lab, self._config, self._attempt = lab, config, attempt
        self._resume_from, self._cost, self._copy = resume_from, cost, copy

    async def send(self) -> Run:
        if self._copy is None:
            raise RuntimeError("a submission without its copy can only be settled")
        keys = forwarded_keys(self._lab, self._config)
        with sent_env_files(self._config, self._lab.workspace.root, self._copy, keys):
            answer = await self._lab.prime.train_submit(self._copy, resume_from=self._resume_from, secrets=keys)
        return await self._row(answer)

    def row_before_sending(self) -> Run:
        """The ledger row of the run, without the run's id. Needs `cost`, like sending."""
        if self._cost is None:
            raise RuntimeError("a submission without its cost can only be settled")
        return self._row_at(Submitted("", None, None), self._cost)

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[Run]:
        id = await find_run(self._lab, self.name)
        return Lookup(None if id is None else await self._row(Submitted(id, None, None)))

    async def _row(self, answer: Submitted) -> Run:
        cost = self._cost if self._cost is not None else await cost_of(self._lab, self._config)
        return self._row_at(answer, cost)

    def _row_at(self, answer: Submitted, cost: CostBound) -> Run:
        copy = self._copy or sent_copy_path(self._lab, self._config, self.key)
        return run_row(
            self._lab,
            self._config,
            answer,
            cost,
            key=self.key,
            name=self.name,
            attempt=self._attempt,
            resume_from=self._resume_from,
            copy=copy if copy.is_file() else None,
        )

    def had_no_effect(self, error: LabError) -> bool:
        return error.code in ENV_FILE_CODES or had_no_effect(error)

    def ended_by_force(self, error: LabError) -> bool:
        return ended_by_force(error)

    def as_result(self, value: Run) -> Mapping[str, Any]:
        return submitted_result(value)

    def from_result(self, result: Mapping[str, Any]) -> Run:
        id = str(result["id"])
        runs = self._lab.ledger.runs(id=id, platform=self.platform)
        return runs[0] if runs else Run(id, "training", self.name, self._lab.key, self.key, self.platform)

    def record(self, value: Run) -> None:
        record_submitted(self._lab, self.key, value)

    def in_flight(self) -> LabError:
        return PrimeError(
            f"another server is submitting {self.name} right now",
            fix=Fix("Call ", NamedCall("submit_training"), " again in a minute; it returns that run."),
            code="submit-in-flight",
        )

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether run {self.name} was created is not known: {why}",
            fix=Fix(
                "Call ",
                NamedCall("submit_training"),
                f" again in {max(10, round(seconds) + 5)} seconds; it looks the run up before it sends anything.",
            ),
            code="submit-outcome-unknown",
        )


def submitted_result(run: Run) -> Mapping[str, Any]:
    """What the ledger keeps as the outcome of a submission."""
    return {"id": run.id, "name": run.name}


def record_submitted(lab: Lab, key: str, run: Run) -> None:
    """Record a submitted run and its bound in the transaction that settles the submission."""
    lab.ledger.record_run(run)
    lab.ledger.commit_spend(key, reserved_for(run), f"training run {run.id}", lab.platform)


async def find_run(lab: Lab, name: str) -> str | None:
    """The id of the account's run with this name. Raises PrimeError when the platform cannot be reached."""
    runs = await lab.prime.train_list(name)
    return str(runs[-1]["id"]) if runs else None


TERMINAL_STATUSES = frozenset({"COMPLETED", "FAILED", "STOPPED"})
"""Statuses of a run that has ended for good. A PAUSED run can be resumed."""


@dataclass(frozen=True, slots=True)
class RunStanding:
    """The state of an intent: `fresh` may be sent; `existing` is a run with `id` and `status`."""

    state: Literal["fresh", "existing"]
    key: str
    attempt: int
    name: str
    id: str | None = None
    status: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL_STATUSES or self.status == "DELETED"


async def run_standing(
    lab: Lab, config: TrainingConfig, *, resume_from: str | None = None, again: bool = False
) -> RunStanding:
    """Look an intent up in the ledger and, if needed, on the platform. Raises PrimeError if the platform fails."""
    attempt = _latest_attempt(lab, config, resume_from, again)
    key = intent_key(lab, config, resume_from, attempt)
    name = run_name(config, key)
    run = await Once(lab.ledger).settle(
        RunSubmission(lab, config, key=key, name=name, attempt=attempt, resume_from=resume_from)
    )
    if run is None:
        return RunStanding("fresh", key, attempt, name)
    standing = RunStanding("existing", key, attempt, name, run.id, await run_status(lab, run.id))
    if again and standing.ended:
        key = intent_key(lab, config, resume_from, attempt + 1)
        return RunStanding("fresh", key, attempt + 1, run_name(config, key))
    return standing


def _latest_attempt(lab: Lab, config: TrainingConfig, resume_from: str | None, again: bool) -> int:
    """The number of the attempt that a call continues.

    An attempt that was refused before anything was sent counts only with `again`.
    """
    attempt = 1
    while True:
        after = lab.ledger.intent(intent_key(lab, config, resume_from, attempt + 1), lab.platform)
        if after is None or (after.state == "open" and not again):
            return attempt
        attempt += 1


async def run_status(lab: Lab, id: str) -> str:
    """The platform's status of a run, or DELETED."""
    try:
        return str((await lab.prime.train_get(id)).get("status") or "UNKNOWN").upper()
    except LabError as error:
        if error.code == "platform-not-found":
            return "DELETED"
        raise


async def submit_run(lab: Lab, submission: RunSubmission) -> Run | None:
    """Start the run. Returns None if this call did not start it.

    Then another call submitted the run first, or the platform already had a run of this name; `run_standing` finds it.
    Raises LabError.
    """
    settled = await Once(lab.ledger).send(submission)
    return settled.value if settled is not None and settled.sent else None
