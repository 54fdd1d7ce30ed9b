"""Whatever today's platform or schema does not take is dropped, with the reason that is known for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prime_lab_mcp.lab.configs.draft import KeyPath
from prime_lab_mcp.lab.configs.migrate.rows import index
from prime_lab_mcp.lab.configs.old_keys import OldKey, translate
from prime_lab_mcp.lab.configs.schema import SchemaProblem, check

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import Mover

_NOT_HOSTED = ("k8s", "clean")
_ROUNDS = 100
"""Dropping a key can bring up another; a file that never comes to rest is none that a migration helps."""


def drop_leftovers(mover: Mover) -> None:
    draft = mover.draft
    if mover.target == "hosted":
        for key in _NOT_HOSTED:
            if key in draft.table:
                mover.drop(key, draft.pop(key), "the platform decides on it")
    if "type" in draft.table:
        mover.drop("type", draft.pop("type"), "every run is a dedicated one now; the key is ignored")
    if draft.get("weight_broadcast.type") in ("nccl", "nixl") and draft.get("trainer.model.lora") is not None:
        mover.drop("weight_broadcast", draft.pop("weight_broadcast"), "LoRA works with the file system only")
    _refused(mover)
    if draft.get("orchestrator.eval") is not None and not draft.get("orchestrator.eval.source"):
        table = draft.pop("orchestrator.eval")
        table.pop("source", None)
        mover.drop("orchestrator.eval", table, "it named no environment; pass eval={...} for held-out tasks")


def _refused(mover: Mover) -> None:
    for _ in range(_ROUNDS):
        mover.draft.table.setdefault("trainer", {})
        mover.draft.table.setdefault("orchestrator", {})
        problems = [p for p in check(mover.draft.table) if p.kind != "missing"]
        if not problems:
            return
        places = index(mover.draft.table)
        for problem in problems:
            path = _drop(mover, problem, places)
            if path is None or isinstance(path[-1], int):
                break  # the entries behind it have other indices now


def _drop(mover: Mover, problem: SchemaProblem, places: Mapping[str, KeyPath]) -> KeyPath | None:
    named = [*_prefixes(mover.rows.origin(problem.key)), *_prefixes(problem.key)]
    known = next((old.why for name in named if (old := translate(name)) is not None and not _renames(old)), None)
    key = problem.key
    while key and key not in places:  # a table that lacks a key is refused under the name of that key
        key = key.rpartition(".")[0]
    if not key or mover.draft.get(places[key]) is None:
        return None
    mover.drop(key, mover.draft.pop(places[key]), known or f"it {problem.problem} in today's prime-rl")
    return places[key]


def _renames(old: OldKey) -> bool:
    return old.to is not None and all(part.isidentifier() for part in old.to.split("."))


def _prefixes(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition(".")[0]
