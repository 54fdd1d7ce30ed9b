"""Finds a results file, tells its layout and reads it one record at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import orjson

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.results import light, platform, v0, v1
from prime_lab_mcp.lab.evals.results.document import LARGEST_RECORD, elements, is_wrapper
from prime_lab_mcp.lab.evals.results.report import Reading
from prime_lab_mcp.lab.evals.results.rollout import Rollout
from prime_lab_mcp.lab.evals.results.tasks import FirstOfEach

Layout = Literal["v1", "v0", "document"]

RESULT_FILES = ("traces.jsonl", "results.jsonl")
_NAMES = {"v1": "v1 episode", "v0": "v0 rollout", "document": "platform sample"}
_PARSERS = {"v1": v1.rollouts, "v0": v0.rollouts, "document": platform.rollouts}
_Quick = Mapping[Layout, Callable[[bytes], list[Rollout] | None]]
"""Readers of a line that take less than all of it; None where the tolerant parser has to look."""
_LIGHT: _Quick = {"v1": light.v1_rollouts, "v0": light.v0_rollouts}
_IN_FULL: _Quick = {}
_ASKED = 20_000
"""Records that are looked through for what tasks say: enough for a few thousand tasks."""
_NOTHING: Mapping[str, Any] = {}


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


def read(path: Path, reading: Reading | None = None) -> Iterator[Rollout]:
    """Every rollout of a results file or run folder, in file order, with its record.

    What is left out (repeated, foreign, broken) is counted in `reading`. Raises EvalError for what is no results file,
    holds no record, or mixes layouts.
    """
    reading = reading or Reading()
    return filter(reading.admit, _every(locate(path), reading, _IN_FULL))


def scores(path: Path, reading: Reading | None = None) -> Iterator[Rollout]:
    """The same rollouts without `record`, `completion_text` and `seconds`, read several times as fast: for judging."""
    reading = reading or Reading()
    return filter(reading.admit, _every(locate(path), reading, _LIGHT))


def tasks(path: Path, most: int = _ASKED) -> Iterator[Rollout]:
    """The first rollout of each task among the first `most` records, in file order, for what the task says only.

    `record` holds what `conversation.task_data` and `gold` look at; reward and text may be missing.
    """
    first = FirstOfEach()
    return filter(first.admit, _every(locate(path), Reading(), {"v1": first.v1, "v0": first.v0}, most))


def parse(record: Mapping[str, Any], written_by: Layout) -> Iterator[Rollout]:
    """The rollouts of one record: one, or one per trained agent of a v1 episode."""
    return _PARSERS[written_by](record)


def score_line(line: bytes, written_by: Layout) -> Iterable[Rollout] | None:
    """The rollouts of one line as `scores` gives them; None when the line is no record of that layout."""
    quick = _LIGHT.get(written_by)
    found = quick(line) if quick is not None else None
    if found is not None:
        return found
    record = decode(line)
    if not isinstance(record, dict) or not _is(record, written_by):
        return None
    return (_lightened(r) for r in parse(record, written_by))


def layout(record: Mapping[str, Any]) -> Layout:
    """Which generation wrote a record. Raises EvalError when none did."""
    if isinstance(record.get("traces"), list) or ("nodes" in record and "rewards" in record):
        return "v1"
    if "example_id" in record and "completion" in record and "timing" in record:
        return "v0"
    if any(name in record for name in platform.REWARD):
        return "document"
    raise EvalError(
        "this is no results file: its first record is no v1 episode, v0 rollout or platform sample",
        fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
        code="results-unreadable",
    )


def decode(line: bytes) -> Any:
    """One line as JSON, NaN and Infinity allowed (v0 writes them); None when it is broken."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        with suppress(ValueError, RecursionError):
            return json.loads(line)
    return None


def first_record(path: Path) -> Mapping[str, Any] | None:
    """The first whole record of a results file, whatever it is; None where there is none."""
    with path.open("rb") as source:
        head = source.readline(LARGEST_RECORD)
        if not _is_document(head):
            found = (decode(line) for line in chain([head], source) if line.strip())
            return next((r for r in found if isinstance(r, dict)), None)
    return next((e for e in elements(path) if isinstance(e, dict)), None)


def _is(record: Mapping[str, Any], written_by: Layout) -> bool:
    with suppress(EvalError):
        return layout(record) == written_by
    return False


def _lightened(rollout: Rollout) -> Rollout:
    rollout.record, rollout.completion_text, rollout.seconds = _NOTHING, "", 0.0
    return rollout


def _every(path: Path, reading: Reading, quick: _Quick, most: int | None = None) -> Iterator[Rollout]:
    """The rollouts of the first `most` records; what `quick` does not read is parsed in full."""
    finish = _lightened if quick is _LIGHT else _as_it_is
    with path.open("rb") as source:
        head = source.readline(LARGEST_RECORD)
        while head and not head.strip():
            head = source.readline(LARGEST_RECORD)
        if not head:
            raise _empty(path, "it is empty")
        if not _is_document(head):
            lines = islice(chain([head], source), most)
            yield from chain.from_iterable(_lines(path, lines, reading, quick, finish))
            return
    yield from map(finish, _elements(path, most))


def _as_it_is(rollout: Rollout) -> Rollout:
    return rollout


def _is_document(head: bytes) -> bool:
    """Whether the first line begins a document: a list, an object over several lines, one that holds the records."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"[") or start.strip() == b"{" or (len(head) >= LARGEST_RECORD and head[-1:] != b"\n"):
        return True
    record = decode(start)
    return isinstance(record, dict) and is_wrapper(record)


def _lines(
    path: Path, lines: Iterable[bytes], reading: Reading, ways: _Quick, finish: Callable[[Rollout], Rollout]
) -> Iterator[Iterable[Rollout]]:
    written_by: Layout | None = None
    quick: Callable[[bytes], list[Rollout] | None] | None = None
    number = tail = 0
    for number, line in enumerate(lines, 1):
        if quick is not None:
            found = quick(line)
            if found is not None:
                yield found
                continue
        if not line.strip():
            tail += tail == number - 1
            continue
        record = decode(line)
        if not isinstance(record, dict):
            reading.broken += 1
            reading.broken_at = reading.broken_at or number
            tail = number
            continue
        if written_by is None:
            written_by = layout(record)
            quick = ways.get(written_by)
        elif not _is(record, written_by):
            raise _mixed(path, number, written_by)
        yield map(finish, parse(record, written_by))
    if reading.broken and tail == number:
        reading.cut_off = True
        reading.broken -= 1
        reading.broken_at = reading.broken_at if reading.broken else 0
    if written_by is None:
        raise _empty(path, "it holds no whole record")


def _elements(path: Path, most: int | None) -> Iterator[Rollout]:
    seen: Layout | None = None
    for number, record in enumerate(islice(elements(path), most), 1):
        if not isinstance(record, dict):
            raise _mixed(path, number, seen or "document")
        try:
            written_by = layout(record)
        except EvalError as error:
            raise (error if seen is None else _mixed(path, number, seen)) from error
        # The platform passes on v0 rollouts with and without the fields that tell them from its own samples.
        if seen is not None and (seen == "v1") != (written_by == "v1"):
            raise _mixed(path, number, seen)
        seen = written_by
        yield from parse(record, written_by)
    if seen is None:
        raise _empty(path, "it holds no sample")


def _mixed(path: Path, number: int, written_by: Layout) -> EvalError:
    return EvalError(
        f"record {number} of {path.name} is no {_NAMES[written_by]} as those before it",
        fix="Keep the results of one evaluation per file.",
        code="results-mixed",
    )


def _empty(path: Path, why: str) -> EvalError:
    known = path.name in RESULT_FILES or not path.stat().st_size
    return EvalError(
        f"{path.name} has no rollout: {why}",
        fix="Call watch_run to see how the evaluation stands, or name a results file that vf-eval wrote.",
        code="results-empty" if known else "results-unreadable",
    )
