"""Finds a results file, tells its layout and reads it one record at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import orjson

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.results import platform, v0, v1
from prime_lab_mcp.lab.evals.results.rollout import Rollout

Layout = Literal["v1", "v0", "document"]

RESULT_FILES = ("traces.jsonl", "results.jsonl")
_LARGEST_DOCUMENT = 512 * 1024 * 1024
_PARSERS = {"v1": v1.rollouts, "v0": v0.rollouts, "document": platform.rollouts}


def locate(path: Path) -> Path:
    """The results file at `path`, or in the folder (or one of its run folders) at `path`. Raises EvalError."""
    if path.is_file():
        return path
    if path.is_dir():
        found = [p for name in RESULT_FILES for p in sorted(path.rglob(name)) if p.is_file()]
        if len(found) == 1:
            return found[0]
        if found:
            raise EvalError(
                f"{path.name} holds {len(found)} results files",
                fix="Name one of them: a traces.jsonl (v1) or a results.jsonl (v0).",
                code="results-ambiguous",
            )
    raise EvalError(
        f"there are no results at {path.name}",
        fix="Name a traces.jsonl, a results.jsonl, the folder of one, or run run_eval.",
        code="results-missing",
    )


def read(path: Path) -> Iterator[Rollout]:
    """Every rollout of a results file or run folder, in file order. Raises EvalError for what is no results file."""
    found = locate(path)
    records = _records(found)
    first = next(records, None)
    if first is None:
        return
    written_by = layout(first)
    yield from parse(first, written_by)
    for record in records:
        yield from parse(record, written_by)


def parse(record: Mapping[str, Any], written_by: Layout) -> Iterator[Rollout]:
    """The rollouts of one record: one, or one per trained agent of a v1 episode."""
    return _PARSERS[written_by](record)


def layout(record: Mapping[str, Any]) -> Layout:
    """Which generation wrote a record. Raises EvalError when none did."""
    if isinstance(record.get("traces"), list) or ("nodes" in record and "rewards" in record):
        return "v1"
    if "example_id" in record and "completion" in record and "timing" in record:
        return "v0"
    if "reward" in record:
        return "document"
    raise EvalError(
        "this is no results file: its first record is no v1 episode, v0 rollout or platform sample",
        fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
        code="results-unreadable",
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as source:
        seen = 0
        for line in source:
            stripped = line.strip()
            if not stripped:
                continue
            record = decode(stripped)
            if record is None and seen:
                continue
            if isinstance(record, dict) and not (seen == 0 and _holds_samples(record)):
                seen += 1
                yield record
            elif seen == 0:
                break
        else:
            return
    yield from _document(path)


def decode(line: bytes) -> Any:
    """One line as JSON, NaN and Infinity allowed (v0 writes them); None when it is broken."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        with suppress(ValueError):
            return json.loads(line)
    return None


def _document(path: Path) -> Iterator[dict[str, Any]]:
    """One JSON document over many lines: a list, or an object with a list of samples or rollouts."""
    if path.stat().st_size > _LARGEST_DOCUMENT:
        raise EvalError(
            f"{path.name} is one JSON document of more than {_LARGEST_DOCUMENT >> 20} MiB",
            fix="Save it with one record per line.",
            code="results-too-big",
        )
    whole = decode(path.read_bytes())
    if whole is None:
        if path.stat().st_size and path.suffix == ".jsonl" and path.name in RESULT_FILES:
            return
        raise EvalError(
            f"{path.name} is neither JSON nor one JSON record per line",
            fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
            code="results-unreadable",
        )
    if isinstance(whole, dict):
        if "reward" in whole or "traces" in whole:
            whole = [whole]
        else:
            whole = next((whole[k] for k in _LISTS if isinstance(whole.get(k), list)), [])
    yield from (r for r in whole if isinstance(r, dict))


_LISTS = ("samples", "rollouts", "data", "items", "results")


def _holds_samples(record: Mapping[str, Any]) -> bool:
    return "reward" not in record and "traces" not in record and any(isinstance(record.get(k), list) for k in _LISTS)
