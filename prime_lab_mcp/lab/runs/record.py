"""Writing down that a run exists: the run, its bound against the cap, and the outcome of its intent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.cost import Cost
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.records import Run

if TYPE_CHECKING:
    from prime_lab_mcp.lab.runs.standing import Standing


def remember(
    lab: Lab,
    config: Config,
    at: Standing,
    answer: Submitted,
    cost: Cost,
    resume_from: str | None,
    copy: Path | None,
) -> Run:
    """Record the run, count its upper bound against the cap, and settle the intent."""
    from prime_lab_mcp.lab.runs.card import facts_of

    data: dict[str, Any] = {
        "model": config.model,
        "environments": [s.id for s in config.sources],
        "max_steps": config.max_steps,
        "gpus": config.gpus,
        "gpu_type": answer.gpu_type or config.gpu_type,
        "attempt": at.attempt,
        "max_hours": cost.hours,
        "card": facts_of(lab, config, at.key),
    }
    if resume_from:
        data["resumed_from"] = resume_from
    if copy is not None:
        data |= {"copy": str(copy), "copy_sha256": hashlib.sha256(copy.read_bytes()).hexdigest()}
    price = answer.estimated_cost_per_hour if answer.estimated_cost_per_hour is not None else cost.price_per_hour
    run = Run(
        id=answer.id,
        kind="training",
        name=at.name,
        workspace=lab.key,
        intent=at.key,
        platform=lab.platform,
        config_path=config.path.resolve().relative_to(lab.workspace.root).as_posix(),
        config_sha256=config.sha256,
        price_per_hour=price,
        max_cost=cost.max_cost,
        data=data,
    )
    with lab.ledger.transaction():
        lab.ledger.record_run(run)
        lab.ledger.commit_spend(at.key, cost.max_cost or 0.0, f"training run {answer.id}", lab.platform)
        lab.ledger.settle(at.key, lab.platform, {"id": answer.id, "name": at.name})
    return run
