"""What goes wrong in a training run, told from its metrics: pure functions over the rows of `prime train metrics`.

Windows and thresholds are those of facts/validation.md 4.3 (window 10 steps, baseline steps 1 to 10); where it names
none, the constant says so. A level counts when it lasts (`series.lasts`), so that one noisy step raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence
from prime_lab_mcp.lab.anomalies.pace import USUAL_STEP, overrun, queue, stall
from prime_lab_mcp.lab.anomalies.policy import entropy_collapse, grad_norm, off_policy
from prime_lab_mcp.lab.anomalies.replies import errors, length, truncation
from prime_lab_mcp.lab.anomalies.rewards import format_plateau, proxy_gap, reward_collapse, suspicious_jump
from prime_lab_mcp.lab.anomalies.signal import empty_batches, no_signal, solved
from prime_lab_mcp.lab.series import FEW, Row, merged

__all__ = ["RULES", "USUAL_STEP", "Anomaly", "Evidence", "empty_batches", "find", "overrun", "queue", "ranked", "stall"]

Rule = Callable[[Sequence[Row]], Anomaly | None]
RULES: tuple[Rule, ...] = (
    reward_collapse, suspicious_jump, entropy_collapse, off_policy, length, truncation, grad_norm, errors,
    format_plateau, proxy_gap,
)  # fmt: skip


def find(rows: Sequence[Row]) -> list[Anomaly]:
    """Everything that stands out, the worst first."""
    ordered = merged(rows)
    if len(ordered) < FEW:
        return []
    # What is solved has no signal either, and that is no fault.
    found = [solved(ordered) or no_signal(ordered), *(rule(ordered) for rule in RULES)]
    return ranked([a for a in found if a is not None])


def ranked(found: Sequence[Anomaly]) -> list[Anomaly]:
    """The worst first, then the oldest."""
    return sorted(found, key=lambda a: (a.level != "stop", a.since_step))
