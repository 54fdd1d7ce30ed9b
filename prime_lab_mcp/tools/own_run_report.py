"""The report of `watch_run` about a self-managed run. No tool acts on such a run; this one reads what it wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.watch import RunReading
from prime_lab_mcp.tools import training_report

_BY_HAND = {
    "stall": "Look whether its processes live, and at logs/latest; a [resume] table in its config goes on from "
    "the last checkpoint."
}
"""Advice where that for a hosted run names a tool that does not reach a self-managed one."""


def own_outcome(folder: str, reading: RunReading) -> Outcome:
    """Build the report of `watch_run` from the files of a self-managed run. `folder` is relative to the workspace."""
    reading = replace(reading, anomalies=tuple(_by_hand(a) for a in reading.anomalies))
    report = training_report.outcome(folder, reading, None)
    data: dict[str, Any] = {**report.data, "kind": "self-managed", "spend": None}
    return replace(
        report,
        summary=_summary(folder, reading, data),
        data={name: value for name, value in data.items() if value is not None},
        next=_next(folder, reading),
        links=(),
        facts=Facts(),
    )


def _by_hand(anomaly: Anomaly) -> Anomaly:
    return replace(anomaly, advice=_BY_HAND.get(anomaly.code, anomaly.advice))


def _summary(folder: str, reading: RunReading, data: dict[str, Any]) -> str:
    of = f" of {reading.max_steps:,}" if reading.max_steps else ""
    reward = data.get("reward")
    earned = f", reward {reward['first']:.2f} -> {reward['now']:.2f}" if reward else ""
    worst = f"; look at {reading.anomalies[0].code}" if reading.anomalies else ""
    stands = "made all its steps" if reading.status == "COMPLETED" else "is not at its last step"
    return f"Self-managed run {quote(folder, 120)} {stands}: {reading.step or 0:,}{of} steps{earned}{worst}."


def _next(folder: str, reading: RunReading) -> tuple[Next, ...]:
    if reading.status == "COMPLETED":
        return (Next("read_reference", "how a checkpoint is served and evaluated", {"topic": "guide/training"}),)
    return (Next("watch_run", "look again in a few minutes", {"id": folder}),)
