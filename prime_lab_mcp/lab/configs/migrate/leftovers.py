"""Whatever today's platform or schema does not take is dropped, with the reason that is known for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prime_lab_mcp.lab.configs.migrate.rows import path_of
from prime_lab_mcp.lab.configs.old_keys import OldKey, translate
from prime_lab_mcp.lab.configs.schema import check

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import Mover

_NOT_HOSTED = ("k8s", "clean")
_MOST = 400
"""Problems dropped one by one; a file with more is none that a migration helps."""


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
    for _ in range(_MOST):
        mover.draft.table.setdefault("trainer", {})
        mover.draft.table.setdefault("orchestrator", {})
        problem = next((p for p in check(mover.draft.table) if p.kind != "missing"), None)
        if problem is None:
            return
        origin = mover.rows.origin(problem.key)
        named = [*_prefixes(origin), *_prefixes(problem.key)]
        known = next((old.why for name in named if (old := translate(name)) is not None and not _renames(old)), None)
        path = path_of(problem.key, mover.draft.table)
        key = problem.key
        while path is None:  # a table that lacks what it must have is refused by the name of the missing key
            key = key.rpartition(".")[0]
            if not key:
                return
            path = path_of(key, mover.draft.table)
        value = mover.draft.pop(path)
        mover.drop(key, value, known or f"it {problem.problem} in today's prime-rl")


def _renames(old: OldKey) -> bool:
    return old.to is not None and all(part.isidentifier() for part in old.to.split("."))


def _prefixes(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition(".")[0]
