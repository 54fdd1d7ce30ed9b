"""Thresholds of the decision table (validation facts 3.4, the seed's five) and the advice where they are missed."""

from __future__ import annotations

from prime_lab_mcp.lab.distribution.intervals import Interval
from prime_lab_mcp.lab.report import Finding

ADVISED_TASKS, ADVISED_ROLLOUTS = 50, 8
MIN_SAMPLE, MEAN_LOW, MEAN_HIGH, MIN_STD, MIN_FORMAT = 20, 0.05, 0.95, 0.05, 0.3
"""The seed's five thresholds."""
USABLE_FAIL, USABLE_WARN = 0.10, 0.40
POOL_FAIL, POOL_WARN = 0.90, 0.50
ERRORS_FAIL, ERRORS_WARN = 0.10, 0.05
TRUNCATED_FAIL, TRUNCATED_WARN = 0.20, 0.05
SIGNAL_FAIL, SIGNAL_WARN = 0.02, 0.10
RANGE_FAIL, RANGE_WARN = 0.05, 0.20
UNPARSED_FAIL, UNPARSED_WARN = 0.50, 0.20
LENGTH_WARN = 0.3
FORMAT_SHARE_FAIL, CORRECT_SHARE_FAIL = 0.60, 0.20
SATURATED = 0.98
NEAR_FLOOR = 0.05

HARDER = (
    "Give the model easier tasks, partial credit that cannot be gamed, or a stronger model; then run run_eval again."
)
FORMAT = "State the format in the system prompt with an example, or fine-tune on it first; then run run_eval again."
EASIER = "Use harder tasks or a weaker model, and leave out what is always solved; then run run_eval again."


def unclear(what: str, interval: Interval, threshold: float, tasks: int, fix: str) -> Finding:
    """The blocker for an interval that lies across a failing threshold."""
    needed = interval.tasks_to_decide(threshold, tasks)
    if needed is None:
        advice = f"It lies on the threshold, and no sample would decide it. {fix}"
    else:
        advice = f"Run run_eval with num_examples={needed} (or {fix[0].lower()}{fix[1:].rstrip('.')})."
    return Finding(
        "distribution-unclear", "blocker",
        f"{what} is {interval.value:.3f}, but its interval {bounds(interval)} lies across {threshold:g}",
        advice, where=what,
    )  # fmt: skip


def bounds(interval: Interval) -> str:
    return f"95% {max(interval.low, 0):.3f} to {interval.high:.3f}"
