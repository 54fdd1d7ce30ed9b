"""Ports a v0 environment of the workspace: loads the old environment in a worker, and writes the v1 package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.authoring.build import build_folder
from prime_lab_mcp.lab.authoring.naming import PackageNames
from prime_lab_mcp.lab.authoring.port.description import CodePlace, decode_description
from prime_lab_mcp.lab.authoring.port.package import (
    OldPort,
    PortedEnvironment,
    build_port,
    is_split,
    left_findings,
    other_split_values,
)
from prime_lab_mcp.lab.authoring.port.renderings import LONGEST_RENDERING
from prime_lab_mcp.lab.authoring.port.rows import MOST_ROWS, PortedRows, port_rows
from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Say
from prime_lab_mcp.lab.base.text import as_mapping
from prime_lab_mcp.lab.datasets import task_golds
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards.probes.row_fields import filled_gold, filled_replies, known_fields
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import SourceCode, read_source
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case

_TRIED_TASKS = 4
"""Number of tasks on which each reply format is tried."""
_SAMPLE_ROWS = 200
"""Number of rows that are searched for golds."""
_ROWS_SECONDS = 120.0
EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class FinishedPort:
    """A finished port. `rendering` is the reply format whose golds earn most; None if no format works."""

    ported: PortedEnvironment
    rows: PortedRows
    rendering: str | None
    old: Snapshot

    @property
    def findings(self) -> tuple[Finding, ...]:
        return left_findings(self.ported)


async def port_environment(lab: Lab, old: Snapshot, target: Path, names: PackageNames, say: Say) -> FinishedPort:
    """Write the v1 package of a v0 environment into `target`.

    Raises BadInput if the environment is written for v1 or has no rows, and the errors of `open_environment`.
    """
    source = await anyio.to_thread.run_sync(read_source, old)
    async with open_environment(lab, old, progress=say) as opened:
        if opened.api != "v0":
            raise BadInput(
                f"{old.name} is an environment for v1 already",
                fix=Fix("Name a v0 environment, or work on this one with ", NamedCall("edit_environment"), "."),
                code="bad-argument",
                next=(Next("test_reward", "proves the reward of the environment", {"environment": old.relative}),),
            )
        await say("reading the rows and the rewards of the old environment")
        traits = await opened.worker.facts()
        if not traits.port:
            raise LabError(
                f"{old.name} could not be described by its interpreter",
                fix=Fix(
                    "Call ", NamedCall("check_environment"), " of the old environment: its findings say what to mend."
                ),
                code="worker-nonsense",
            )
        splits, totals = await _rows(opened.worker)
        if not any(splits.values()):
            raise BadInput(
                f"{old.name} has no rows, so there is nothing to port",
                fix=Fix("Call ", NamedCall("check_environment"), " of the old environment."),
                code="bad-argument",
                next=(Next("check_environment", "says why it has no rows", {"environment": old.relative}),),
            )
        main = _main_file(source, old)
        names_of_split = tuple(a.name for a in traits.args if is_split(a.name))
        if len(names_of_split) == 1:
            values = other_split_values(source, main, names_of_split[0])
            await say("reading the rows of other splits")
            for value in values:
                if found := await _rows_with(lab, old, {names_of_split[0]: value}, splits):
                    splits[value], totals[value] = found
        rows, read = port_rows(splits, totals), splits["train"] or splits["eval"]
        port = OldPort(
            old.name,
            decode_description(traits.port, [f.path for f in source.files]),
            source,
            main,
            old.manifest.requirements,
            tuple(a.name for a in traits.args),
            old.manifest.project,
            as_mapping(as_mapping(as_mapping(old.manifest.table.get("tool")).get("verifiers")).get("eval")),
            await anyio.to_thread.run_sync(_readme, old),
        )
        built = await anyio.to_thread.run_sync(build_port, lab.settings.templates, names, port, rows)
        await say("trying how an answer is written")
        rendering = await _best_rendering(opened.worker, read, built.renderings)
    await anyio.to_thread.run_sync(_write, target, built)
    return FinishedPort(built, rows, rendering, old)


async def _rows(worker: Worker) -> tuple[dict[str, Sequence[Row]], dict[str, int]]:
    """The rows of both splits of the old environment, and the number of all rows of each."""
    splits: dict[str, Sequence[Row]] = {}
    totals: dict[str, int] = {}
    for split in ("train", "eval"):
        reply = await worker.rows(limit=MOST_ROWS, split=split, timeout=_ROWS_SECONDS)
        splits[split], totals[split] = reply.rows, reply.total or len(reply.rows)
    return splits, totals


async def _rows_with(
    lab: Lab, old: Snapshot, env_args: Mapping[str, Any], known: Mapping[str, Sequence[Row]]
) -> tuple[Sequence[Row], int] | None:
    """The rows that other arguments give; None where the environment does not load with them, and for rows that are
    known already."""
    try:
        async with open_environment(lab, old, env_args=env_args) as opened:
            reply = await opened.worker.rows(limit=MOST_ROWS, split="train", timeout=_ROWS_SECONDS)
    except LabError:
        return None  # the finding says that these rows are not carried over
    prompts = [{str(row.prompt) for row in rows} for rows in (reply.rows, *known.values())]
    return None if not reply.rows or prompts[0] in prompts[1:] else (reply.rows, reply.total or len(reply.rows))


def _readme(old: Snapshot) -> str:
    """The text of the old README; empty where it has none or it is no text."""
    try:
        return (old.tree / "README.md").read_text(encoding="utf-8") if "README.md" in old.files else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _main_file(source: SourceCode, old: Snapshot) -> str:
    """The file that defines `load_environment`. Raises BadInput if none or several do."""
    files = [
        f.path
        for f in source.files
        if f.tree is not None
        and any(
            isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == "load_environment" for n in f.tree.body
        )
    ]
    module = old.manifest.module or ""
    own_files = [p for p in files if p.removeprefix("src/").split("/")[0].removesuffix(".py") == module]
    candidates = own_files or files
    if len(candidates) != 1:
        raise BadInput(
            f"{len(candidates)} files of {old.name} define load_environment",
            fix=Fix(
                "Let one file of the old package define it, then call ", NamedCall("create_environment"), " again."
            ),
            code="bad-argument",
            where=str(CodePlace(candidates[0], 1)) if candidates else None,
            next=(Next("read_environment", "shows its files", {"environment": old.relative}),),
        )
    return candidates[0]


def _write(target: Path, built: PortedEnvironment) -> None:
    with build_folder(target) as folder:
        for path, text in built.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


_EMPTY_FIELD = re.compile(r"<([\w-]+)>\n\.{3}\n</\1>")
"""A field of a parser for which no part of the answer is known."""


def _with_named_fields(renderings: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the formats in which a field has the value that the tasks store under its name, such as `info.urgency`."""
    places = {place.rpartition(".")[2]: place for place in known_fields(rows) if place.startswith("info.")}
    for text in renderings:
        named = _EMPTY_FIELD.sub(
            lambda m: f"<{m[1]}>\n{{{places[m[1]]}}}\n</{m[1]}>" if m[1] in places else m[0],
            text,
        )
        if named != text and len(named) <= LONGEST_RENDERING:
            yield named


async def _best_rendering(worker: Worker, rows: Sequence[Row], renderings: Sequence[str]) -> str | None:
    """The reply format in which golds earn most; None if no format pays golds.

    A format counts only if its golds earn more than the answers of other tasks do.
    """
    candidates = task_golds.gold_candidates(list(rows[:_SAMPLE_ROWS]))
    golds = candidates[0].golds[:_TRIED_TASKS] if candidates else ()
    if not golds or not renderings:
        return None
    by_index = {row.index: row for row in rows}
    cases: list[tuple[int, bool, Case]] = []
    tried = []
    renderings = [*renderings, *_with_named_fields(renderings, rows)]
    for number, text in enumerate(renderings):
        parts = filled_replies(text, rows[:_SAMPLE_ROWS])
        if "GOLD" not in text and not all(gold.row in parts for gold in golds):
            continue
        tried.append(number)
        for place, gold in enumerate(golds):
            for other in {place, place - 1}:
                rendering = golds[other].form(0)
                if other != place and rendering == gold.form(0):
                    continue
                reply = parts.get(golds[other].row) or filled_gold(text, rendering, by_index[golds[other].row])
                message = {"role": "assistant", "content": reply}
                cases.append((number, other == place, Case(f"{number}/{place}/{other}", gold.row, [message])))
    scored = await worker.score([case for _, _, case in cases])
    best, most = None, 0.0
    for number in tried:
        text = renderings[number]
        earned = [(right, s.reward or 0.0) for (n, right, _), s in zip(cases, scored, strict=True) if n == number]
        golden, wrong = [r for right, r in earned if right], [r for right, r in earned if not right]
        mean = sum(golden) / len(golden)
        if mean > most + EPSILON and (not wrong or mean > sum(wrong) / len(wrong) + EPSILON):
            best, most = text, mean
    return best
