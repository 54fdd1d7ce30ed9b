"""Where the conversations of a warm-up come from: an evaluation, a file of the workspace, or a dataset by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs.held_out import held_out_keys
from prime_lab_mcp.lab.configs.warm_up.conversations import Row, solved
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.evals.results import read, scores
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

FEW = 100
"""Recipes of prime-rl warm up on about a thousand conversations; below this a model learns the examples by heart."""
LEAST = 8
"""Conversations of an evaluation below which there is nothing to learn from but themselves."""
_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_LIMIT = 500_000_000
_HELD_EVALS = 20


@dataclass(frozen=True, slots=True)
class Examples:
    """`rows` is None for a dataset of Hugging Face, which the trainer or a person loads by `name`."""

    rows: tuple[Row, ...] | None
    name: str
    said: str
    """Where they come from, for the file's comments."""
    environment: str | None = None
    model: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(r.tokens for r in self.rows or ())

    @property
    def longest(self) -> int:
        return max((r.tokens for r in self.rows or ()), default=0)


def examples(lab: Lab, source: str, held_out: Mapping[str, Any] | None) -> Examples:
    """Raises BadInput for a source that is none, holds nothing solved, or is held out."""
    path = lab.workspace.resolve(source)
    if path.is_file():
        return _of_file(path, source)
    if source.startswith("eval-"):
        return _of_evaluation(lab, lab.evals.get(source), held_out)
    if path.is_dir():
        raise BadInput(
            f"{quote(source, limit=120)} is a folder",
            fix="Name the file of conversations in it, one JSON object a line.",
            code="sft-data",
        )
    if not _HUB.fullmatch(source):
        raise BadInput(
            f"{quote(source, limit=120)} is no evaluation, no file of the workspace and no dataset",
            fix='Pass an eval id (watch_run lists them), a JSONL path, or a dataset as "owner/name".',
            code="sft-data",
        )
    return Examples(None, source, f"dataset {source}")


def _of_evaluation(lab: Lab, job: Job, held_out: Mapping[str, Any] | None) -> Examples:
    spec, found = lab.evals.spec(job), lab.evals.files(job.id).results()
    if found is None:
        raise BadInput(
            f"evaluation {job.id} has no finished rollout", fix="Wait for it with watch_run.", code="results-missing"
        )
    keys = held_out if held_out is not None else _held_out_keys(lab, job)
    if keys and _selects(spec.env_args, keys):
        raise BadInput(
            f"evaluation {job.id} played the held-out tasks, which must never be trained on",
            fix="Pass an evaluation of training tasks: run_eval without the held-out environment arguments.",
            code="sft-held-out",
        )
    kept = solved(lambda: read(found), spec.weights, _held_tasks(lab, job, keys or {}))
    if len(kept.rows) < LEAST:
        raise BadInput(
            f"{len(kept.rows)} of the {count(kept.played, 'rollout')} of {job.id} can be learned from: too few "
            f"({_why_few(kept.left_out)})",
            fix="Evaluate a stronger model on these tasks with run_eval and pass that evaluation, or pass a dataset.",
            code="sft-nothing-solved",
        )
    said = f"{count(len(kept.rows), 'solved rollout')} of {count(kept.tasks, 'task')} from {job.id}"
    return Examples(kept.rows, job.id, said, spec.environment, spec.model, _few(len(kept.rows)))


def _of_file(path: Path, source: str) -> Examples:
    if path.stat().st_size > _LIMIT:
        raise BadInput(f"{quote(source, 120)} is too large to copy", fix="Publish it as a dataset.", code="sft-data")
    rows = []
    with path.open(encoding="utf-8", errors="strict") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    rows.append(_checked(line, number, source))
        except UnicodeDecodeError:
            raise _bad_row(source, len(rows) + 1, "is not UTF-8") from None
    if not rows:
        raise _bad_row(source, 1, "is missing: the file is empty")
    return Examples(tuple(rows), source, f"{count(len(rows), 'conversation')} of {source}", findings=_few(len(rows)))


def _checked(line: str, number: int, source: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        raise _bad_row(source, number, "is no JSON") from None
    messages = row.get("messages") if isinstance(row, dict) else None
    split = isinstance(row, dict) and row.get("prompt") is not None and row.get("completion") is not None
    if messages is not None:
        said = [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []
        if not any(m.get("role") == "assistant" for m in said):
            raise _bad_row(source, number, "has messages without a reply of the assistant")
    elif not split:
        raise _bad_row(source, number, "has neither messages nor prompt and completion")
    return Row(line.rstrip("\n"), int(len(line) / 3) + 1)


def _bad_row(source: str, number: int, problem: str) -> BadInput:
    return BadInput(
        f"line {number} of {quote(source, limit=120)} {problem}",
        fix='Give {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}]}, one object a line.',
        code="sft-data",
        where=f"{source}:{number}",
    )


def _held_out_keys(lab: Lab, job: Job) -> Mapping[str, Any] | None:
    try:
        return held_out_keys(lab.workspace.environment(job.environment).path)
    except BadInput:
        return None


def _selects(args: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return all(args.get(key) == value for key, value in keys.items())


def _held_tasks(lab: Lab, job: Job, keys: Mapping[str, Any]) -> frozenset[str]:
    """Tasks that evaluations of the held-out part played, in case the parts overlap."""
    if not keys:
        return frozenset()
    found: set[str] = set()
    for other in lab.evals.list(job.environment)[:_HELD_EVALS]:
        file = lab.evals.files(other.id).results() if _selects(lab.evals.spec(other).env_args, keys) else None
        if file is not None:
            found.update(rollout.task for rollout in scores(file))
    return frozenset(found)


def _why_few(left_out: Mapping[str, int]) -> str:
    told = ", ".join(f"{number} {why}" for why, number in left_out.items())
    return f"solved but left out: {told}" if told else "no other one reached the full reward"


def _few(rows: int) -> tuple[Finding, ...]:
    if rows >= FEW:
        return ()
    return (
        Finding(
            "sft-few-examples",
            "warning",
            f"{count(rows, 'conversation')} can teach a form at best; the recipes of prime-rl use about a thousand",
            "Evaluate more training tasks with run_eval (a stronger model solves more), or pass a dataset.",
        ),
    )
