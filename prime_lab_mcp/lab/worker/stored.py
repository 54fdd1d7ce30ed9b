"""Rollouts that an earlier evaluation stored: where their tasks are now, and what they earn now.

Runs in the environment's interpreter; what differs between the generations is in stored_v0.py and stored_v1.py.
"""

from __future__ import annotations

import sys
from typing import Any


def _of(adapter: Any) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(f"stored_{adapter.api}")


def locate(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """For each stored task its present row or why there is none; with `all`, what every present task asks."""
    known = _of(adapter).tasks(adapter, request["limit"])
    found = []
    for stored in request["tasks"]:
        row, why = known.find(stored, request["whole"])
        found.append({"row": row, "why": why, "task": known.told(row) if row is not None else None})
    return {
        "found": found,
        "unfit": _of(adapter).unfit(adapter),
        "grouped": bool(getattr(adapter, "grouped", False)),
        "asked": list(known.all())[: request["limit"]] if request["all"] else [],
    }


def score(adapter: Any, case: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """What one stored rollout (or group) earns."""
    scored: dict[str, Any] = _of(adapter).score(adapter, case, request)
    return scored
