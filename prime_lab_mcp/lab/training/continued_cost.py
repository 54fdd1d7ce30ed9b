"""Bounds what a run costs that is resumed or restarted, at the platform's present price.

A resumed run is a new run, billed at the price of the hour in which it begins. The hours are those of the bound that
was agreed at the submission, because a run that goes on may do all of its steps again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.evidence import known_schemas
from prime_lab_mcp.lab.configs.rules.unproven import unproven_cautions
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.bound import bound_from_ledger
from prime_lab_mcp.lab.training.disclosures import disclosure_cautions
from prime_lab_mcp.lab.training.sandboxes import rented_sandboxes


@dataclass(frozen=True, slots=True)
class ContinuedCost:
    """The price per hour and the most US dollars of a run that goes on; None where one is not known."""

    price_per_hour: float | None = None
    max_cost: float | None = None
    before: float | None = None
    """The price per hour at which the run was started."""

    @property
    def sentence(self) -> str:
        """The price and the bound for the question."""
        if self.price_per_hour is None or self.max_cost is None:
            return "its present price per hour is not known here."
        changed = self.before is not None and abs(self.before - self.price_per_hour) > 0.005
        earlier = f" (${self.before:.2f} when it was started)" if changed else ""
        return (
            f"${self.price_per_hour:.2f} per hour{earlier}, at most ${self.max_cost:.2f} more "
            "(the bound of the whole run, because the step from which it goes on is not known here)."
        )

    def covers(self, present: ContinuedCost) -> bool:
        """Whether what was agreed holds for the present cost."""
        if self.max_cost is None:
            return True  # the question said that no price is known
        return present.max_cost is not None and present.max_cost <= self.max_cost + 1e-9


async def cost_to_go_on(lab: Lab, id: str, *, under_its_id: bool = False) -> ContinuedCost:
    """Bound the cost of a run that goes on. Raises LabError if the prices cannot be asked.

    A run that keeps its id may keep its price too, so that the higher of both prices counts.
    """
    run = next(iter(lab.ledger.runs(id=id, platform=lab.platform)), None)
    if run is None:
        return ContinuedCost()
    hours, gpus = _hours(run), finite_number(run.data.get("gpus"))
    gpu_type = run.data.get("gpu_type")
    per_gpu = (await lab.prime.models()).price(gpu_type if isinstance(gpu_type, str) else None)
    if per_gpu is None or gpus is None or hours is None:
        return ContinuedCost(before=run.price_per_hour)
    price = round(per_gpu * gpus, 4)
    if under_its_id and run.price_per_hour is not None:
        price = max(price, run.price_per_hour)
    return ContinuedCost(price, round(price * hours, 2), run.price_per_hour)


def _hours(run: Run) -> float | None:
    """The hours of the bound of a run. Rows of earlier versions have only its price and its cost."""
    recorded = finite_number(run.data.get("max_hours"))
    if recorded is not None:
        return recorded
    return run.max_cost / run.price_per_hour if run.max_cost is not None and run.price_per_hour else None


def require_agreed(agreed: ContinuedCost, present: ContinuedCost) -> None:
    """Raise LabError if a run that goes on costs more than was agreed."""
    if agreed.covers(present):
        return
    raise LabError(
        "the price of the run rose while this was being approved; nothing was sent",
        fix=Fix("Call ", NamedCall("control_run"), " again; it asks with the present price."),
        code="intent-changed",
    )


def reserved_for(run: Run) -> float | None:
    """What counts against the cap for a run: the agreed bound, or more where the platform charges another price."""
    hours = finite_number(run.data.get("max_hours"))
    if run.max_cost is None or run.price_per_hour is None or hours is None:
        return run.max_cost
    return max(run.max_cost, round(run.price_per_hour * hours, 2))


def submitted_config(run: Run | None) -> Path | None:
    """The config file of a run, if the file still is what was submitted."""
    if run is None or run.config_path is None or run.config_sha256 is None:
        return None
    path = Path(run.workspace, run.config_path)
    try:
        return path if hashlib.sha256(path.read_bytes()).hexdigest() == run.config_sha256 else None
    except OSError:
        return None


def read_submitted(run: Run | None) -> TrainingConfig | None:
    """The config of a run as it was submitted; None where the file is another one by now."""
    if run is None or run.config_path is None:
        return None
    try:
        config = read_config(Path(run.workspace, run.config_path))
    except BadInput:
        return None
    return config if config.sha256 == run.config_sha256 else None


def cautions_of_config(lab: Lab, config: TrainingConfig) -> tuple[str, ...]:
    """The cautions that the question of the submission named for the config, whatever the price."""
    rented = rented_sandboxes(config, ConfigContext(shapes=known_schemas(lab, config)))
    left_out = bound_from_ledger(lab, config, 1.0).left_out
    settings = (*(f.message for f in rented if f.code == "default-runtime"), *unproven_cautions(config))
    return (*settings, *disclosure_cautions(lab, config), *left_out)
