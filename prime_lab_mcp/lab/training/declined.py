"""Records that a person declined to start the run of a config, and what to call after that.

The record concerns the bytes of the config: a changed config is another question. It is no verdict, and no gate reads
it.
"""

from __future__ import annotations

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence

_TOOL = "submit_training"


def record_decline(lab: Lab, config_sha256: str, by: str) -> None:
    """Record that the submission of a config was declined. `by` names who declined it."""
    lab.ledger.record(
        Evidence(_TOOL, "failed", lab.key, config_sha256=config_sha256, platform=lab.platform, data={"declined_by": by})
    )


def newest_decline(lab: Lab, config_sha256: str | None = None) -> Evidence | None:
    """The newest decline of a config, or of any config if none is given; None if there is none, or if a run
    followed."""
    row = lab.ledger.newest_with(lab.key, _TOOL, "declined_by", platform=lab.platform, config_sha256=config_sha256)
    if row is None:
        return None
    runs = lab.ledger.runs(workspace=lab.key, platform=lab.platform)
    return None if any(run.config_sha256 == row.config_sha256 and run.at >= row.at for run in runs) else row


def calls_after_decline(config: TrainingConfig, path: str, by: str) -> tuple[Next, ...]:
    """Calls that change the declined config. `path` is the config relative to the workspace."""
    steps = max(1, (config.max_steps or 2) // 2)
    why = f"declined by {by}: a run of half as many steps; or pass budget=, model=, batch= or max_tokens= as they wish"
    return (
        Next("write_training_config", why, {"based_on": path, "steps": steps}),
        Next("check_training_config", "what the declined config costs, and its warnings", {"path": path}),
    )
