"""How a scored completion is shown in a finding: the exact completion quoted, what it earned, what it should have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.rewards.observed import Shot, Trial
from prime_lab_mcp.lab.text import quote

_SHOWN = 300


def case_row(shot: Shot, expected: str, trial: Trial) -> dict[str, Any]:
    """One line of `failing_cases` (DESIGN, result data)."""
    row: dict[str, Any] = {
        "case": shot.probe.name,
        "task": shot.probe.row,
        "completion": _completion(shot),
        "expected": expected,
        "reward": shot.reward if shot.reward is None else round(shot.reward, 6),
    }
    gold = _gold(shot, trial)
    if gold:
        row["gold"] = gold
    return row


def paid(shot: Shot, trial: Trial) -> str:
    """What one completion earned, for the end of a sentence."""
    earned = "nothing computable" if shot.reward is None else f"{shot.reward:g} of {trial.max_reward:g}"
    return f"{earned} on task {shot.probe.row} for {_completion(shot, 160)}"


def _completion(shot: Shot, limit: int = _SHOWN) -> str:
    return quote(shot.probe.completion, limit) if shot.probe.messages else "(no reply)"


def _gold(shot: Shot, trial: Trial) -> str | None:
    if trial.style is None:
        return None
    found = next((g for g in trial.style.golds.golds if g.row == shot.probe.row), None)
    return None if found is None else quote(found.raw, 80)


def hack(severity: Severity, shots: Sequence[Shot], how: str, fix: str, trial: Trial, code: str = "") -> Finding:
    """A finding about completions that were paid for what is no right answer."""
    return Finding(
        code or "reward-hackable",
        severity,
        f"{how}: {paid(shots[0], trial)}",
        fix,
        rows=tuple(case_row(s, "less than the right answer", trial) for s in shots[:2]),
    )
