"""Rules about what a step is made of: the batch, its groups, and the rollouts in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.configs.observed import MIN_BATCH, Observed, Rule
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.report import Finding

MIN_GROUP = 8
"""prime-rl docs: "Group size >= 8"."""
_GROUP_RELATIVE = frozenset({"grpo", "max_rl", "hierarchical_grpo", "echo"})


def batching(config: Config, seen: Observed) -> Iterator[Finding]:
    """prime-rl's `resolve_batching`."""
    rollouts, tokens = config.number("orchestrator.batch_size"), config.number("orchestrator.token_batch_size")
    if rollouts is not None and tokens is not None:
        yield Finding(
            "config-two-batches",
            "blocker",
            "Both batch_size and token_batch_size are set; prime-rl takes exactly one.",
            "Remove orchestrator.token_batch_size.",
            "orchestrator.token_batch_size",
        )
        return
    group = config.number("orchestrator.group_size", 1) or 1
    batch = config.batch_size
    if batch is None:
        return
    if batch % group:
        near = max(group, round(batch / group) * group)
        yield Finding(
            "config-batch-group",
            "blocker",
            f"batch_size {batch} is no multiple of group_size {group}; prime-rl refuses it.",
            f"Set batch_size to {near}.",
            "orchestrator.batch_size",
        )
    if 0 < batch < MIN_BATCH:
        yield Finding(
            "config-small-batch",
            "warning",
            f"batch_size {batch} is below {MIN_BATCH} rollouts, which prime-rl's docs call the practical floor.",
            f"Set batch_size to {max(MIN_BATCH // group, 1) * group or group} or more, unless this is a smoke run.",
            "orchestrator.batch_size",
        )


def group_size(config: Config, seen: Observed) -> Iterator[Finding]:
    """GRPO compares rollouts of one task with each other: a group of one has no advantage at all."""
    for source in config.train_sources:
        if _algorithm(config, source) not in _GROUP_RELATIVE:
            continue
        size = config.group_of(source)
        default = "group_size" not in source.table and config.at("orchestrator.group_size") is None
        if size < 2:
            yield Finding(
                "config-group-size",
                "blocker",
                f"group_size is {size}{' (the default)' if default else ''}: every advantage is zero.",
                "Set orchestrator.group_size = 16.",
                "orchestrator.group_size",
            )
        elif size < MIN_GROUP:
            yield Finding(
                "config-group-size",
                "warning",
                f"group_size {size} is below {MIN_GROUP}: few groups hold both better and worse rollouts.",
                "Set orchestrator.group_size to 8 or 16.",
                "orchestrator.group_size",
            )


def inflight(config: Config, seen: Observed) -> Iterator[Finding]:
    """Both bounds of the concurrency must hold a whole group."""
    group = config.number("orchestrator.group_size", 1) or 1
    for key, default in (("max_inflight", 1024), ("initial_inflight", None)):
        bound = config.number(f"orchestrator.concurrency.{key}", default)
        if bound is not None and bound < group:
            yield Finding(
                "config-inflight",
                "blocker",
                f"concurrency.{key} {bound} is smaller than group_size {group}; prime-rl refuses it.",
                f"Set orchestrator.concurrency.{key} to {group} or more.",
                f"orchestrator.concurrency.{key}",
            )


RULES: tuple[Rule, ...] = (
    batching,
    group_size,
    inflight,
)


def _algorithm(config: Config, source: Source) -> str:
    own = source.table.get("algo")
    found = own.get("type") if isinstance(own, Mapping) else config.at("orchestrator.algo.type")
    return str(found or "grpo")
