"""A valid value for every required argument of a tool beside `environment`, for tests that call every tool."""

from __future__ import annotations

from typing import Any

REQUIRED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_hub": {"kind": "environment", "query": "sums"},
    "inspect_dataset": {"dataset": "sums.jsonl"},
    "create_environment": {"name": "sums", "dataset": "sums.jsonl"},
    "edit_environment": {"path": "notes.txt", "new": "x"},
    "run_eval": {"model": "m"},
    "check_training_config": {"path": "configs/rl/sums.toml"},
    "control_run": {"id": "run_1", "action": "stop"},
}
