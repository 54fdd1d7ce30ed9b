"""Locates a results file, detects its layout and reads the file one record at a time.

`read_rollouts` yields every rollout with its record, `read_scores` yields rollouts without conversations, and
`read_first_rollouts` yields the first rollout of each task with only the task's fields.

Fast decoders read the lines whose fields have the types that verifiers writes. The tolerant parser of the layout
(layouts.py) reads all other lines. The platform prints one JSON document: a list of samples, or an object that contains
such a list. A document is streamed record by record.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec
import orjson

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.untrusted_files import LARGEST_LINE, bounded_lines, open_results
from prime_lab_mcp.lab.rollouts import layouts
from prime_lab_mcp.lab.rollouts import scores as light
from prime_lab_mcp.lab.rollouts.rollout import Reading, Rollout

SAMPLE_LISTS = ("samples", "rollouts", "data", "items", "results")
"""Fields of a document that may contain its list of records."""
DECODED_WHOLE_BYTES = 16 * 1024 * 1024
"""Size in bytes up to which a document is decoded at once. A larger document is streamed."""
LARGEST_RECORD = LARGEST_LINE
"""Longest record that is read into memory, in characters."""
_CHUNK = 1 << 20
_BLANK = " \t\r\n"


def is_wrapper(record: Mapping[str, Any]) -> bool:
    """Whether an object contains a list of records and is not a record itself."""
    return not ({"reward", "traces", "score"} & record.keys()) and any(
        isinstance(record.get(k), list) for k in SAMPLE_LISTS
    )


def stream_elements(path: Path) -> Iterator[Any]:
    """Yield the records of a JSON document in order. Raises EvalError if the file is not JSON or ends too early."""
    try:
        with open_results(path) as opened, io.TextIOWrapper(opened, encoding="utf-8-sig") as source:
            if os.fstat(opened.fileno()).st_size <= DECODED_WHOLE_BYTES:
                yield from _within(json.load(source))
            else:
                yield from _Stream(source).elements()
    except (ValueError, RecursionError) as error:
        raise EvalError(
            f"{path.name} is neither whole JSON nor one JSON record per line",
            fix="Name a traces.jsonl or results.jsonl that vf-eval wrote, or save the document again.",
            code="results-unreadable",
        ) from error


def _within(document: Any) -> list[Any]:
    if isinstance(document, list):
        return document
    if isinstance(document, dict) and is_wrapper(document):
        return next(document[k] for k in SAMPLE_LISTS if isinstance(document.get(k), list))
    return [document]


class _Stream:
    """Decodes a JSON document one record at a time, with no more text in memory than that record needs."""

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._ended = False

    def elements(self) -> Iterator[Any]:
        """Yield the records of the document in order. Raises ValueError if the document is not valid JSON."""
        opening = self._next()
        if opening == "[":
            yield from self._items()
            return
        if opening != "{":
            raise ValueError("no list and no object")
        while (key := self._value()) is not None:
            self._expect(":")
            if key in SAMPLE_LISTS and self._peek() == "[":
                self._next()
                yield from self._items()
                return
            self._value()
            if self._next() == "}":
                return

    def _items(self) -> Iterator[Any]:
        """Yield the items of a list, after its opening bracket."""
        if self._peek() == "]":
            return
        while True:
            yield self._value()
            if self._next() == "]":
                return

    def _value(self) -> Any:
        """Decode the next JSON value, and read more text as long as the value is incomplete."""
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more():
                    raise
                continue
            # A number at the very end of the buffer may continue in the next chunk.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _expect(self, expected: str) -> None:
        if self._next() != expected:
            raise ValueError(f"no {expected}")

    def _next(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _peek(self) -> str:
        """Return the next character that is not blank. Raises ValueError at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                raise ValueError("it breaks off")

    def _more(self) -> bool:
        """Read more text. Returns False at the end of the file; raises EvalError if the record is too long."""
        held = len(self._text) - self._at
        if held > LARGEST_RECORD:
            raise EvalError(
                f"one record of this document is longer than {LARGEST_RECORD >> 20} million characters",
                fix="Save it with one record per line.",
                code="results-too-big",
            )
        added = "" if self._ended else self._source.read(max(_CHUNK, held))
        self._ended = not added
        self._text, self._at = self._text[self._at :] + added, 0
        return bool(added)


_DECODER = json.JSONDecoder()


class _Task(msgspec.Struct, gc=False):
    """The decoded fields of a v1 task. The following classes have the decoded fields of v1 episodes and v0 rows."""

    key: str
    data: msgspec.Raw


class _Agent(msgspec.Struct, gc=False):
    name: str | None = None
    trainable: bool = True


class _Trace(msgspec.Struct, gc=False):
    task: _Task
    agent: _Agent | None = None


class _Episode(msgspec.Struct, gc=False):
    traces: list[_Trace]


class _Row(msgspec.Struct, gc=False):
    example_id: int | str
    answer: msgspec.Raw = msgspec.Raw(b"null")
    task: msgspec.Raw = msgspec.Raw(b"null")
    info: msgspec.Raw = msgspec.Raw(b"null")


_EPISODE = msgspec.json.Decoder(_Episode).decode
_ROW = msgspec.json.Decoder(_Row).decode
_DATA = msgspec.json.Decoder(dict[str, Any]).decode
_ANY = msgspec.json.Decoder().decode


class FirstRollouts:
    """Selects the first rollout of each task. The data of a task is decoded only once."""

    def __init__(self) -> None:
        self.tasks_read: set[str] = set()

    def admit(self, rollout: Rollout) -> bool:
        """Whether this rollout is the first of its task. The task then counts as read."""
        if rollout.task in self.tasks_read:
            return False
        self.tasks_read.add(rollout.task)
        return True

    def v1(self, line: bytes) -> list[Rollout] | None:
        """Return a rollout for each new task of a v1 episode, or None if the tolerant parser has to read the line."""
        try:
            traces = _EPISODE(line).traces
            trained = [t for t in traces if t.agent is None or t.agent.trainable] or traces
            if not trained or not all(t.task.key for t in trained):
                return None  # the tolerant parser derives the name from other fields of the task
            tasks = [(_task_name(t, several=len(trained) > 1), t.task.data) for t in trained]
            return [
                Rollout(name, None, record={"task": {"data": _DATA(data)}})
                for name, data in tasks
                if name not in self.tasks_read
            ]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def v0(self, line: bytes) -> list[Rollout] | None:
        """Return a rollout for the task of a v0 row if the task is new, or None if the tolerant parser has to read the
        line."""
        try:
            row = _ROW(line)
            name = str(row.example_id)
            if name in self.tasks_read:
                return []
            fields = {key: _ANY(value) for key in ("answer", "task", "info") if (value := getattr(row, key))}
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return [Rollout(name, None, record={"example_id": row.example_id, **fields})]


def _task_name(trace: _Trace, *, several: bool) -> str:
    called = trace.agent.name if several and trace.agent is not None else None
    return f"{trace.task.key}/{called}" if called else trace.task.key


Layout = Literal["v1", "v0", "document"]

RESULT_FILES = ("traces.jsonl", "results.jsonl")
_NAMES = {"v1": "v1 episode", "v0": "v0 rollout", "document": "platform sample"}
_PARSERS = {"v1": layouts.v1_rollouts, "v0": layouts.v0_rollouts, "document": layouts.platform_rollouts}
_FastReaders = Mapping[Layout, Callable[[bytes], list[Rollout] | None]]
"""For each layout, a decoder that reads only some fields of a line. It returns None if the tolerant parser has to read
the line."""
_LIGHT: _FastReaders = {"v1": light.v1_scores, "v0": light.v0_scores}
_IN_FULL: _FastReaders = {}
_MOST_RECORDS = 20_000
"""Number of records in which `read_first_rollouts` looks for tasks: enough for a few thousand tasks."""
_NOTHING: Mapping[str, Any] = {}
_BUFFER = 1 << 18
"""Bytes that are read at once. With the default of some kilobytes, splitting a file of long lines takes a fifth of the
time of judging it."""


def locate_results(path: Path) -> Path:
    """Return the results file at `path`, or the only one below the folder `path`.

    Raises EvalError if there is no results file or more than one.
    """
    if path.is_file():
        return path
    if path.is_dir():
        files = [p for name in RESULT_FILES for p in sorted(path.rglob(name)) if p.is_file()]
        if len(files) == 1:
            return files[0]
        if files:
            raise EvalError(
                f"{path.name} holds {len(files)} results files",
                fix="Name one of them: a traces.jsonl (v1) or a results.jsonl (v0).",
                code="results-ambiguous",
            )
    raise EvalError(
        f"there are no results at {path.name}",
        fix=Fix("Name a traces.jsonl, a results.jsonl, the folder of one, or run ", NamedCall("run_eval"), "."),
        code="results-missing",
    )


def read_rollouts(path: Path, reading: Reading | None = None) -> Iterator[Rollout]:
    """Yield every rollout of a results file or run folder with its record, in file order.

    `reading` counts what is left out: repeated rollouts, rollouts of another model or environment, and broken lines.
    Raises EvalError if the file is not a results file, contains no record or mixes layouts.
    """
    reading = reading or Reading()
    return filter(reading.admit, _rollouts(locate_results(path), reading, _IN_FULL))


def read_scores(path: Path, reading: Reading | None = None) -> Iterator[Rollout]:
    """Yield the rollouts of `read_rollouts` without `record`, `completion_text` and `seconds`, several times as fast.

    Raises EvalError like `read_rollouts`.
    """
    reading = reading or Reading()
    return filter(reading.admit, _rollouts(locate_results(path), reading, _LIGHT))


def read_first_rollouts(path: Path, most: int = _MOST_RECORDS) -> Iterator[Rollout]:
    """Yield the first rollout of each task among the first `most` records, in file order.

    The rollout's `record` has the fields that `conversation.task_data` and `gold` read. Reward and text may be missing.
    Raises EvalError like `read_rollouts`.
    """
    first = FirstRollouts()
    return filter(first.admit, _rollouts(locate_results(path), Reading(), {"v1": first.v1, "v0": first.v0}, most))


def parse_record(record: Mapping[str, Any], written_by: Layout) -> Iterator[Rollout]:
    """Yield the rollouts of one record: one for each trained agent of a v1 episode, otherwise one."""
    return _PARSERS[written_by](record)


def parse_score_line(line: bytes, written_by: Layout) -> Iterable[Rollout] | None:
    """Return the rollouts of one line as `read_scores` yields them; None if the line is not a record of the layout."""
    decode = _LIGHT.get(written_by)
    rollouts = decode(line) if decode is not None else None
    if rollouts is not None:
        return rollouts
    record = decode_line(line)
    if not isinstance(record, dict) or not _has_layout(record, written_by):
        return None
    return (_without_record(r) for r in parse_record(record, written_by))


def layout_of(record: Mapping[str, Any]) -> Layout:
    """Return the layout of a record. Raises EvalError if the record has no known layout."""
    if isinstance(record.get("traces"), list) or ("nodes" in record and "rewards" in record):
        return "v1"
    if "example_id" in record and "completion" in record and "timing" in record:
        return "v0"
    if any(name in record for name in layouts.PLATFORM_REWARD_KEYS):
        return "document"
    raise EvalError(
        "this is no results file: its first record is no v1 episode, v0 rollout or platform sample",
        fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
        code="results-unreadable",
    )


def decode_line(line: bytes) -> Any:
    """Decode one line of JSON; None if the line is broken. NaN and Infinity are accepted, because v0 writes them."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        with suppress(ValueError, RecursionError):
            return json.loads(line)
    return None


def first_record(path: Path) -> Mapping[str, Any] | None:
    """Return the first complete record of a results file of any layout, or None if there is no record."""
    with open_results(path) as source:
        head = source.readline(LARGEST_RECORD)
        if not _is_document(head):
            records = (decode_line(line) for line in chain([head], bounded_lines(source, path.name)) if line.strip())
            return next((r for r in records if isinstance(r, dict)), None)
    return next((e for e in stream_elements(path) if isinstance(e, dict)), None)


def _has_layout(record: Mapping[str, Any], written_by: Layout) -> bool:
    with suppress(EvalError):
        return layout_of(record) == written_by
    return False


def _without_record(rollout: Rollout) -> Rollout:
    rollout.record, rollout.completion_text, rollout.seconds = _NOTHING, "", 0.0
    return rollout


def _rollouts(path: Path, reading: Reading, quick: _FastReaders, most: int | None = None) -> Iterator[Rollout]:
    """Yield the rollouts of the first `most` records. The tolerant parser reads every line that `quick` cannot read."""
    finish = _without_record if quick is _LIGHT else _unchanged
    with open_results(path, buffering=_BUFFER) as source:
        head = source.readline(LARGEST_RECORD)
        while head and not head.strip():
            head = source.readline(LARGEST_RECORD)
        if not head:
            raise _empty(path, "it is empty")
        if not _is_document(head):
            lines = islice(chain([head], bounded_lines(source, path.name)), most)
            yield from chain.from_iterable(_lines(path, lines, reading, quick, finish))
            return
    yield from map(finish, _elements(path, most))


def _unchanged(rollout: Rollout) -> Rollout:
    return rollout


def _is_document(head: bytes) -> bool:
    """Whether the first line begins a document: a list, an object over several lines, or a wrapper of records."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"[") or start.strip() == b"{" or (len(head) >= LARGEST_RECORD and head[-1:] != b"\n"):
        return True
    record = decode_line(start)
    return isinstance(record, dict) and is_wrapper(record)


def _lines(
    path: Path, lines: Iterable[bytes], reading: Reading, readers: _FastReaders, finish: Callable[[Rollout], Rollout]
) -> Iterator[Iterable[Rollout]]:
    """Yield the rollouts of each line. The first record decides the layout; `reading` counts broken lines."""
    written_by: Layout | None = None
    decode: Callable[[bytes], list[Rollout] | None] | None = None
    number = tail = 0
    for number, line in enumerate(lines, 1):
        if decode is not None:
            rollouts = decode(line)
            if rollouts is not None:
                yield rollouts
                continue
        if not line.strip():
            tail += tail == number - 1
            continue
        record = decode_line(line)
        if not isinstance(record, dict):
            reading.broken += 1
            reading.broken_at = reading.broken_at or number
            tail = number
            continue
        if written_by is None:
            written_by = layout_of(record)
            decode = readers.get(written_by)
        elif not _has_layout(record, written_by):
            raise _mixed(path, number, written_by)
        yield map(finish, parse_record(record, written_by))
    if reading.broken and tail == number:
        reading.cut_off = True
        reading.broken -= 1
        reading.broken_at = reading.broken_at if reading.broken else 0
    if written_by is None:
        raise _empty(path, "it holds no whole record")


def _elements(path: Path, most: int | None) -> Iterator[Rollout]:
    """Yield the rollouts of the first `most` records of a JSON document."""
    layout: Layout | None = None
    for number, record in enumerate(islice(stream_elements(path), most), 1):
        if not isinstance(record, dict):
            raise _mixed(path, number, layout or "document")
        try:
            written_by = layout_of(record)
        except EvalError as error:
            raise (error if layout is None else _mixed(path, number, layout)) from error
        # The platform prints v0 rollouts with or without the fields by which they differ from its own samples.
        if layout is not None and (layout == "v1") != (written_by == "v1"):
            raise _mixed(path, number, layout)
        layout = written_by
        yield from parse_record(record, written_by)
    if layout is None:
        raise _empty(path, "it holds no sample")


def _mixed(path: Path, number: int, written_by: Layout) -> EvalError:
    return EvalError(
        f"record {number} of {path.name} is no {_NAMES[written_by]} as those before it",
        fix="Keep the results of one evaluation per file.",
        code="results-mixed",
    )


def _empty(path: Path, why: str) -> EvalError:
    known = path.name in RESULT_FILES or not path.lstat().st_size
    return EvalError(
        f"{path.name} has no rollout: {why}",
        fix=Fix(
            "Call ",
            NamedCall("watch_run"),
            " to see how the evaluation stands, or name a results file that vf-eval wrote.",
        ),
        code="results-empty" if known else "results-unreadable",
    )
