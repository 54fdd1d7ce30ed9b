"""Rows of text files: JSON, JSONL, CSV and TSV, streamed. Standard library only."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.datasets import streams
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

WHOLE = 256 * 1024 * 1024
"""Bytes of a .json file whose rows are not one list: only that can be read piece by piece."""
DIGITS = 4300
"""Digits of an integer that Python converts; a longer one is kept as text."""
_LOOKED_AT = 1000
"""First rows of a file whose names are compared: one that repeats a name repeats it in every row."""
_ROW_LISTS = ("data", "rows", "examples", "items", "questions")
_SPACE = re.compile(r"[\s,]*")


class Sink(Protocol):
    """What takes rows."""

    def take(self, row: dict[str, Any], size: int) -> None: ...

    def breaks(self, where: int, what: str) -> None: ...


def read_text(path: Path, split: str, sink: Sink, most: int | None = None) -> None:
    """One file by its ending. Raises BadInput, OSError, and streams.TooMuch beyond `most` bytes."""
    match streams.format_of(path.name):
        case ".json":
            read_json(path, split, sink, most)
        case ".csv":
            read_csv(path, sink, ",", most)
        case ".tsv":
            read_csv(path, sink, "\t", most)
        case _:
            read_jsonl(path, sink, most)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= DIGITS else digits


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(next(n for n in names if names.count(n) > 1))
    return row


class _Repeated(Exception):
    """An object has one name twice."""


_plain = json.JSONDecoder()
_raw = _plain.raw_decode
_careful = json.JSONDecoder(parse_int=_integer)
_watchful = json.JSONDecoder(parse_int=_integer, object_pairs_hook=_distinct)


def _decoded(text: str, number: int) -> Any:
    """Raises ValueError, RecursionError, _Repeated."""
    if number <= _LOOKED_AT:
        return _watchful.decode(text)
    try:
        value, end = _raw(text) if text.startswith("{") else (None, -1)  # decode() costs half as much again
        return value if end >= 0 and not text[end:].strip() else _plain.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of too many digits
        return _careful.decode(text)


def _take(sink: Sink, value: Any, number: int, size: int) -> None:
    if isinstance(value, dict):
        sink.take(value, size)
    else:
        sink.breaks(number, f"a JSON {type(value).__name__}, not an object")


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON"


def _repeats_a_name(name: str, what: str) -> BadInput:
    return BadInput(
        f"{quote(name, 80)} gives one row two columns named {quote(what, 80)}",
        fix="Give each column one name.",
        code="duplicate-columns",
    )


def read_jsonl(path: Path, sink: Sink, most: int | None = None) -> None:
    """One JSON object per line; other lines are noted as broken."""
    taken = False
    foreign = 0
    for number, line in enumerate(streams.lines(path, most), 1):
        if not line.strip():
            continue
        try:
            value = _decoded(line.decode(), number)
        except _Repeated as error:
            raise _repeats_a_name(path.name, str(error)) from None
        except (ValueError, RecursionError) as error:
            foreign += isinstance(error, UnicodeDecodeError)
            sink.breaks(number, _why(error))
            continue
        taken = taken or isinstance(value, dict)
        _take(sink, value, number, len(line))
    if foreign and not taken:
        raise streams.not_utf8(path.name)


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(path: Path, split: str, sink: Sink, most: int | None = None) -> None:
    """A list of objects (streamed), an object that holds one (by split or as `data`), columns, or JSONL."""
    texts = _decoded_chunks(path, most)
    head = ""
    for text in texts:
        head += text
        if head.strip():
            break
    if head.lstrip().startswith("["):
        return _read_list(chain([head], texts), sink, path.name)
    first, _, rest = head.lstrip().partition("\n")
    if rest.lstrip().startswith("{") and _is_object(first):
        return read_jsonl(path, sink, most)
    return _read_object(head, texts, split, sink, path.name)


def _decoded_chunks(path: Path, most: int | None) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    first = True
    try:
        for chunk in streams.chunks(path, most):
            if first:
                streams.refuse_other_encodings(chunk, path.name)
                chunk, first = chunk.removeprefix(codecs.BOM_UTF8), False
            yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise streams.not_utf8(path.name) from None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_list(texts: Iterable[str], sink: Sink, name: str) -> None:
    """Object by object: what is not yet whole is tried again with the next piece of the file."""
    buffer, number, opened = "", 0, False
    reason: Exception | None = None
    for text in texts:
        buffer += text
        place = 0
        if not opened:
            opened, place = True, buffer.index("[") + 1
        while True:
            match = _SPACE.match(buffer, place)
            place = match.end() if match else place
            if place >= len(buffer):
                break
            if buffer[place] == "]":
                _nothing_after(buffer[place + 1 :], texts, name)
                return
            try:
                value, end = (_watchful if number < _LOOKED_AT else _careful).raw_decode(buffer, place)
            except _Repeated as error:
                raise _repeats_a_name(name, str(error)) from None
            except RecursionError:
                raise _broken_json(name, "nested too deeply") from None
            except ValueError as error:
                if not _may_go_on(error, len(buffer)):
                    raise _broken_json(name, str(error)) from None
                if len(buffer) - place > streams.LINE:
                    raise streams.too_long(name, f"entry {number + 1:,}") from None
                reason = error
                break
            if end == len(buffer) and not isinstance(value, dict):
                break  # a bare number may go on in the next piece
            number += 1
            _take(sink, value, number, end - place)
            place = end
        buffer = buffer[place:]
    raise _broken_json(name, str(reason) if buffer.strip() and reason is not None else "the list is not closed")


def _may_go_on(error: ValueError, size: int) -> bool:
    """Whether what cannot be read may only be cut off: it broke at the end, or inside a text."""
    return not isinstance(error, json.JSONDecodeError) or error.pos > size - 16 or "Unterminated" in error.msg


def _nothing_after(rest: str, texts: Iterable[str], name: str) -> None:
    if rest.strip() or any(text.strip() for text in texts):
        raise _broken_json(name, "something follows the list of rows")


def _read_object(head: str, texts: Iterator[str], split: str, sink: Sink, name: str) -> None:
    pieces, size = [head], len(head)
    for text in texts:
        pieces.append(text)
        size += len(text)
        if size > WHOLE:
            raise BadInput(
                f"{quote(name, 80)} is one JSON object of more than {WHOLE // 2**20} MiB",
                fix="Write the rows as one list of objects, or convert them to JSONL or Parquet.",
                code="file-too-big",
            )
    try:
        value = _watchful.decode("".join(pieces))
    except _Repeated as error:
        raise _repeats_a_name(name, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _broken_json(name, "nested too deeply" if isinstance(error, RecursionError) else str(error)) from None
    for number, row in enumerate(_row_list(value, split, name), 1):
        _take(sink, row, number, 0)


def _broken_json(name: str, why: str) -> BadInput:
    return BadInput(f"{quote(name, 80)} is not valid JSON: {quote(why, 120)}", fix="Mend the file.", code="broken-json")


def _row_list(value: Any, split: str, name: str) -> Iterable[Any]:
    if isinstance(value, dict):
        lists = {k: v for k, v in value.items() if isinstance(v, list)}
        for key in (split, *_ROW_LISTS):
            if lists.get(key) and isinstance(lists[key][0], dict):
                return lists[key]
        if lists and len(lists) == len(value) and len({len(v) for v in lists.values()}) == 1:
            return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    raise BadInput(
        f"{quote(name, 80)} holds no list of rows", fix="Make it a JSON list of objects, or JSONL.", code="no-rows"
    )


# --- CSV -------------------------------------------------------------------------------------------------------------


def read_csv(path: Path, sink: Sink, delimiter: str, most: int | None = None) -> None:
    """A table with a header line; every value is text."""
    csv.field_size_limit(streams.LINE)
    source = (line.decode() + "\n" for line in streams.lines(path, most))
    try:
        first = next(source, "")
        reader = csv.reader(chain([first], source), delimiter=_delimiter(first, delimiter))
        header = _header(next(reader, []), path.name)
        for row in reader:
            if len(row) == len(header):
                sink.take(dict(zip(header, row, strict=True)), sum(map(len, row)))
            elif row:
                sink.breaks(reader.line_num, f"{len(row)} fields where the header has {len(header)}")
    except UnicodeDecodeError:
        raise streams.not_utf8(path.name) from None
    except csv.Error as error:
        raise BadInput(
            f"{quote(path.name, 80)} cannot be read as CSV: {quote(str(error), 120)}",
            fix="Mend its quoting: a quote that is opened and not closed swallows all that follows.",
            code="broken-csv",
        ) from None


def _delimiter(header: str, usual: str) -> str:
    """Spreadsheets of many countries write semicolons."""
    return usual if usual in header else next((d for d in (";", "\t") if d in header), usual)


def _header(names: list[str], file: str) -> list[str]:
    """Names as they stand; a column without one (an index that was written out) gets its position as name."""
    found = [name if name.strip() else f"column {place}" for place, name in enumerate(names, 1)]
    repeated = next((n for n in found if found.count(n) > 1), None)
    if repeated is not None:
        raise _repeats_a_name(file, repeated)
    return found
