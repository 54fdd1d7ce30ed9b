"""Checks a submitted training config like the platform, and reports problems in the form of its 422 answers."""

from __future__ import annotations

from typing import Any

from prime_lab_mcp.rehearsal import hub, runs
from prime_lab_mcp.rehearsal.call import PlatformCall, Refusal
from prime_lab_mcp.rehearsal.store import Body

_TOP = frozenset(
    {
        "name",
        "max_steps",
        "seq_len",
        "model",
        "deployment",
        "ckpt",
        "resume",
        "monitors",
        "run",
        "log",
        "env_vars",
        "tokenizer",
        "weight_broadcast",
        "rollout_transport",
        "output_dir",
        "trainer",
        "orchestrator",
        "inference",
    }
)


def check(call: PlatformCall, config: object, gpu: str) -> list[Body]:
    """Every problem, as `{loc, msg}`; empty when the run may start."""
    if not isinstance(config, dict):
        return [_problem((), "config is required")]
    problems = [_problem((key,), "Extra inputs are not permitted") for key in set(config) - _TOP]
    for table in ("trainer", "orchestrator", "inference"):
        if not isinstance(config.get(table), dict):
            problems.append(_problem((table,), "Field required"))
    if gpu not in runs.GPU_PRICES:
        problems.append({"loc": ["body", "gpuType"], "msg": f"unknown GPU type {gpu}"})
    orchestrator = config.get("orchestrator")
    if isinstance(orchestrator, dict):
        problems += _batch(orchestrator)
        problems += _sources(call, orchestrator)
    return problems


def _batch(orchestrator: Body) -> list[Body]:
    batch, group = orchestrator.get("batch_size", 128), orchestrator.get("group_size", 1)
    where = ("orchestrator", "batch_size")
    if not isinstance(batch, int) or not isinstance(group, int) or batch < 1 or group < 1:
        return [_problem(where, "batch_size and group_size must be positive integers")]
    if batch % group:
        return [_problem(where, f"batch_size {batch} is not divisible by group_size {group}")]
    return []


def _sources(call: PlatformCall, orchestrator: Body) -> list[Body]:
    problems: list[Body] = []
    for block in ("train", "eval"):
        if block == "eval" and block not in orchestrator:
            continue
        table = orchestrator.get(block)
        sources = table.get("source") if isinstance(table, dict) else None
        where = ("orchestrator", block, "source")
        if not isinstance(sources, list) or not sources:
            problems.append(_problem(where, "at least one source is required"))
            continue
        for index, source in enumerate(sources):
            problems += _source(call, source, (*where, index))
    return problems


def _source(call: PlatformCall, source: Any, where: tuple[str | int, ...]) -> list[Body]:
    try:
        wanted = str(source["env"]["taskset"]["id"])
    except (KeyError, TypeError):
        return [_problem((*where, "env", "taskset", "id"), "Field required")]
    where = (*where, "env", "taskset", "id")
    path, _, version = wanted.partition("@")
    owner, slash, name = path.partition("/")
    if not slash:
        return []
    try:
        held = hub.version(call, hub.find(call, owner, name), version or "latest")
    except Refusal as refusal:
        return [_problem(where, str(refusal.detail))]
    if held["runtime"] == "VERIFIERS_V0":
        return [_problem(where, f"{wanted} is a verifiers v0 environment and cannot be trained")]
    return []


def _problem(where: tuple[str | int, ...], message: str) -> Body:
    return {"loc": ["body", "config", *where], "msg": message, "type": "value_error"}
