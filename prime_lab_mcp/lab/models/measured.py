"""What the user's own evaluations on this machine showed of models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prime_lab_mcp.lab.records import Evidence


def measured(history: Iterable[Evidence]) -> dict[str, list[dict[str, Any]]]:
    """Model name in lower case to what its evals on this machine showed, newest first, one per environment."""
    found: dict[str, list[dict[str, Any]]] = {}
    seen: set[tuple[str, str | None]] = set()
    for row in history:
        mean = row.data.get("mean_reward", row.data.get("mean"))
        if row.model is None or mean is None or (row.model.lower(), row.environment) in seen:
            continue
        seen.add((row.model.lower(), row.environment))
        entry = {"environment": row.environment, "mean_reward": mean, "status": row.status}
        found.setdefault(row.model.lower(), []).append(entry)
    return found
