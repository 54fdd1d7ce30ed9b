"""Evaluations of a run's model before and after it was trained: which there are, what they show, what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from prime_lab_mcp.lab.configs.read import identity
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals.results import read
from prime_lab_mcp.lab.evals.views.compare import compare
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Next


@dataclass(frozen=True, slots=True)
class Source:
    """An environment of this workspace that a run was evaluated on, else trained on; `args` select its tasks."""

    environment: str
    args: Mapping[str, Any] = field(default_factory=dict)
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """A source with its newest finished evaluations of the base model and of the trained one."""

    source: Source
    base: Job | None
    trained: Job | None


def sources(lab: Lab, config: Mapping[str, Any]) -> tuple[Source, ...]:
    """Held-out sources of a config where it has some, else what it trains on; only environments pushed from here."""
    for kind in ("eval", "train"):
        found = {}
        for entry in _entries(config, kind):
            taskset = dict(_at(entry, "env", "taskset") or {})
            owner, name, version = identity(str(taskset.pop("id", "")))
            pushes = lab.ledger.pushes(owner=owner, name=name, platform=lab.platform, workspace=lab.key)
            push = next((p for p in pushes if version in (None, p.version)), None)
            if owner and push is not None:
                found[push.environment, repr(sorted(taskset.items(), key=str))] = Source(
                    push.environment, taskset, kind == "eval"
                )
        if found:
            return tuple(found.values())
    return ()


def before_and_after(lab: Lab, source: Source, base_model: str, run_name: str) -> Before:
    """`run_name` is what a checkpoint is served as, with or without `-step-N`."""
    trained = re.compile(rf"{re.escape(run_name)}(-step-\d+)?")
    jobs = [job for job in lab.evals.list(source.environment) if job.state == "finished"]
    fitting = [job for job in jobs if dict(job.spec.get("env_args") or {}) == dict(source.args)]
    return Before(
        source,
        next((job for job in fitting if str(job.spec.get("model")).lower() == base_model.lower()), None),
        next((job for job in fitting if trained.fullmatch(str(job.spec.get("model")))), None),
    )


async def compared(lab: Lab, found: Before) -> Viewed | None:
    """Trained less base, paired by task; None while one of the two is missing or cannot be read."""
    if found.base is None or found.trained is None:
        return None
    try:
        trained, base = _opened(lab, found.trained), _opened(lab, found.base)
        return await anyio.to_thread.run_sync(partial(compare, trained, base))
    except LabError:
        return None  # read_eval says why, and is named as the next call


def missing(found: Before, base_model: str, served: str, *, rehearsal: bool) -> tuple[Next, ...]:
    """The calls that complete the two, in order; both on the same tasks."""
    asked: dict[str, Any] = {"environment": found.source.environment}
    if found.source.args:
        asked["env_args"] = dict(found.source.args)
    calls = []
    if found.base is None:
        calls.append(Next("run_eval", "the base model on the held-out tasks", {**asked, "model": base_model}))
    if found.trained is None:
        if found.base is not None:
            asked |= {key: found.base.spec[key] for key in ("num_examples", "rollouts") if key in found.base.spec}
        endpoint = {} if rehearsal else {"endpoint": "vllm"}
        reason = "the trained checkpoint on the same tasks" + ("" if rehearsal else ", once it is served")
        calls.append(Next("run_eval", reason, {**asked, "model": served, **endpoint}))
    if found.base is not None and found.trained is not None:
        given = {"eval": found.trained.id, "view": "compare", "other": found.base.id}
        calls.append(Next("read_eval", "what changed, task by task", given))
    return tuple(calls)


def _opened(lab: Lab, job: Job) -> Evaluated:
    path = lab.evals.results_path(job.id)
    return Evaluated(job.id, lab.evals.spec(job), lambda: read(path))


def _entries(config: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = _at(config, "orchestrator", kind, "source")
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _at(table: Any, *path: str) -> Any:
    for part in path:
        table = table.get(part) if isinstance(table, Mapping) else None
    return table
