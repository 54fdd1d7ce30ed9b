"""The known relations between keys that prime-rl's validators require (prime-rl 559b4477)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Relation = Callable[[dict[str, Any]], dict[str, Any]]


def whole_groups(orchestrator: dict[str, Any]) -> dict[str, Any]:
    batch, tokens = orchestrator.get("batch_size"), orchestrator.get("token_batch_size")
    group = orchestrator.get("group_size") or 1
    if batch is not None and tokens is not None:
        raise ValueError("batch_size and token_batch_size are mutually exclusive")
    if batch is not None and batch % group:
        raise ValueError(f"batch_size ({batch}) must be divisible by group_size ({group})")
    return orchestrator


def on_one_node(deployment: dict[str, Any]) -> dict[str, Any]:
    wanted = deployment["num_train_gpus"] + deployment["num_infer_gpus"]
    if wanted > deployment["gpus_per_node"]:
        raise ValueError(f"{wanted} GPUs do not fit a node of {deployment['gpus_per_node']}")
    return deployment


RELATIONS: Mapping[str, Mapping[str, Relation]] = {
    "rl": {"OrchestratorConfig": whole_groups, "SingleNodeDeploymentConfig": on_one_node},
    "sft": {},
}
"""The relations by schema and definition."""
