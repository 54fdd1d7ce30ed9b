"""The rows that an environment yields as a dataset, so that the same judgement applies to them.

Its code runs in its own interpreter, as in every step; only the rows come here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import anyio

from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.reading import Columns, Progress
from prime_lab_mcp.lab.datasets.scanning import Work, judge_table
from prime_lab_mcp.lab.datasets.source import EnvironmentRows
from prime_lab_mcp.lab.datasets.table import Request, Scanned, Table
from prime_lab_mcp.lab.datasets.values import clipped
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.opening import opened
from prime_lab_mcp.lab.rewards.gold import prompt_of
from prime_lab_mcp.lab.worker.cases import Row, Rows

MOST = 5_000
"""Tasks asked of an environment at most: each goes through a pipe."""


async def read_environment(
    lab: Lab, source: EnvironmentRows, request: Request, columns: Columns, progress: Progress
) -> Inspection:
    """Judge the tasks of a local environment and of its held-out split, if it offers one.

    Raises BadInput, and what opening an environment raises.
    """
    if request.config or request.revision or request.split or request.eval_split:
        raise BadInput(
            "an environment has no config, revision or split to choose here",
            fix="Leave them out; what is loaded follows from [tool.prime-lab] check_args in its pyproject.toml.",
            code="bad-argument",
        )
    snapshot = await lab.snapshot(source.name)

    async def say(message: str) -> None:
        await progress(0, None, message)

    limit = min(request.max_rows, MOST)
    async with opened(lab, snapshot, progress=say) as found:
        main = await found.worker.rows(limit=limit)
        held = await found.worker.rows(limit=limit, split="eval")
    table = Table(
        id=request.dataset,
        origin="environment",
        config=None,
        revision=None,
        splits=tuple((name, rows.total) for name, rows in (("train", main), ("eval", held)) if rows.rows),
        main=_scanned("train", main),
        held=_scanned("eval", held) if held.rows and _others(main, held) else None,
    )
    work = Work(request, "train", "eval" if table.held else None, *columns)
    return await anyio.to_thread.run_sync(partial(judge_table, work, table))


def _others(main: Rows, held: Rows) -> bool:
    """Whether the held-out rows are others: an environment without a split of its own lists the same ones again."""
    return [prompt_of(r) for r in main.rows] != [prompt_of(r) for r in held.rows]


def _scanned(name: str, rows: Rows) -> Scanned:
    kept = tuple((row.index, {k: clipped(v) for k, v in _as_row(row)}) for row in rows.rows)
    digest = hashlib.sha256()
    for _, row in kept:
        raw = json.dumps(row, sort_keys=True).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    scanned = len(kept) if rows.total is None else rows.total
    return Scanned(name, kept, scanned, rows.total is not None, digest.hexdigest())


def _as_row(row: Row) -> Iterator[tuple[str, Any]]:
    """`prompt` (what the user asks), `answer`, and every field of the task or of its info under its own name."""
    own: dict[str, Any] = {"prompt": prompt_of(row)}
    if row.answer is not None:
        own["answer"] = row.answer
    more = dict(row.info) if isinstance(row.info, Mapping) else {}
    for name, value in (row.fields | more if isinstance(row.fields, dict) else {**row.fields, **more}).items():
        if name not in ("prompt", "info") and value is not None:
            own.setdefault(str(name), value)
    yield from own.items()
