"""What is known of models beside their price: field notes that came with the project, and the user's own evals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from prime_lab_mcp.lab.records import Evidence


@cache
def field_notes() -> dict[str, str]:
    """Model name in lower case to a remark."""
    text = (resources.files("prime_lab_mcp.lab") / "model_notes.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return {name: f"{note} (reported {found['reported']})" for name, note in found["models"].items()}


def field_note(model: str) -> str | None:
    return field_notes().get(model.lower())


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
