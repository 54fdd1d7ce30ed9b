"""Reads rows of text files (JSON, JSONL, CSV and TSV), also compressed ones, mostly without loading a whole file.

This module uses only the standard library, because the toolchain's interpreter runs it too.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

LONGEST_LINE = 16 * 1024 * 1024
"""Most bytes of a line or of a JSON object in a list. A longer one is not a row of text."""
TEXT = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
TABLES = (".parquet", ".arrow")
PACKED = (".gz", ".zst")
_CHUNK = 1024 * 1024
_LINES_CHUNK = 32 * 1024
"""Bytes of lines that are decoded at a time. What is read stays in the processor's cache until it is decoded."""
_BOMB_BYTES = 1024**3
_BOMB_RATIO = 150
"""The compression ratio above which a large file is refused. Text compresses 3 to 20 times, and repetitive text a
little more. gzip can reach 1,032."""


class TooManyBytes(Exception):
    """The file has more bytes than the caller wants to read in this process."""


def format_of(name: str) -> str | None:
    """Return the suffix that names the format (`.jsonl` for `train.jsonl.gz`); None for other files."""
    packed = packing_of(name)
    ending = Path(name.removesuffix(packed) if packed else name).suffix
    return ending if ending in TEXT or (ending in TABLES and packed is None) else None


def packing_of(name: str) -> str | None:
    """Return the compression suffix of a file name; None for an uncompressed file."""
    return next((p for p in PACKED if name.endswith(p)), None)


def known_endings() -> str:
    """Return the known suffixes as text for messages."""
    return f"{', '.join((*TEXT, *TABLES))} (text also as {' and '.join(PACKED)})"


def read_chunks(path: Path, most: int | None = None, size_of_chunk: int = _CHUNK) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file. Raises BadInput, and TooManyBytes if there are more than `most` bytes."""
    packed = packing_of(path.name)
    size = path.stat().st_size
    total = 0
    try:
        with _opened(path, packed) as stream:
            while chunk := stream.read(size_of_chunk):
                total += len(chunk)
                if most is not None and total > most:
                    raise TooManyBytes
                if packed and total > _BOMB_BYTES and total > _BOMB_RATIO * size:
                    raise BadInput(
                        f"{quote(path.name, 80)} unpacks to more than {_BOMB_RATIO} times its size; that is no dataset",
                        fix="Look at what the archive holds before anything else reads it.",
                        code="decompression-bomb",
                    )
                yield bytes(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _broken(path, packed, isinstance(error, EOFError)) from None
    except (OSError, ValueError) as error:  # pyarrow raises these for damaged compressed data.
        if packed != ".zst" or isinstance(error, UnicodeError | PermissionError | FileNotFoundError):
            raise
        raise _broken(path, packed, "truncated" in str(error).lower()) from None


def _opened(path: Path, packed: str | None) -> Any:
    if packed == ".gz":
        return gzip.open(path, "rb")
    if packed == ".zst":
        pa: Any = importlib.import_module("pyarrow")
        return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


def _broken(path: Path, packed: str | None, cut: bool) -> BadInput:
    kind = "gzip" if packed == ".gz" else "zstd"
    return BadInput(
        f"{quote(path.name, 80)} {'ends in the middle of its data' if cut else f'is not {kind} data, or is damaged'}",
        fix="Copy or download the file again; if it is not packed, give it the ending of what it is.",
        code="broken-file",
    )


def read_lines(path: Path, most: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, without line feeds and byte order mark. Raises BadInput and TooManyBytes."""
    for lines, _ in _read_line_groups(path, most):
        yield from lines


def _read_line_groups(path: Path, most: int | None = None) -> Iterator[tuple[list[bytes], int]]:
    """Yield the lines of a file like `read_lines`, in a list for each piece of the file that is read, and its bytes."""
    number, first = 0, True
    begun: list[bytes] = []  # The pieces of a line whose end was not read yet.
    for chunk in read_chunks(path, most, _LINES_CHUNK):
        if first:
            refuse_other_encodings(chunk, path.name)
            chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
        begun.append(chunk)
        if b"\n" in chunk:
            piece = b"".join(begun)
            *complete, rest = piece.split(b"\n")
            if len(complete[0]) > LONGEST_LINE:  # Each later line is shorter than a chunk.
                raise line_too_long(path.name, f"line {number + 1:,}")
            number += len(complete)
            if len(rest) > LONGEST_LINE:
                raise line_too_long(path.name, f"line {number + 1:,}")
            begun = [rest] if rest else []
            yield complete, len(piece) - len(rest)
        elif sum(map(len, begun)) > LONGEST_LINE:
            raise line_too_long(path.name, f"line {number + 1:,}")
    if begun:
        last = b"".join(begun)
        yield [last], len(last)


def line_too_long(name: str, what: str) -> BadInput:
    """Return the error for a line or object that is longer than `LONGEST_LINE`."""
    return BadInput(
        f"{what} of {quote(name, 80)} is longer than {LONGEST_LINE / 2**20:g} MiB",
        fix="Write one row per line, or store the dataset as Parquet.",
        code="line-too-long",
    )


def not_utf8(name: str, encoding: str = "") -> BadInput:
    """Return the error for a file in another encoding than UTF-8."""
    return BadInput(
        f"{quote(name, 80)} is not UTF-8 text{f'; it looks like {encoding}' if encoding else ''}",
        fix="Convert the file to UTF-8, for example with iconv -t UTF-8.",
        code="not-utf8",
    )


def refuse_other_encodings(head: bytes, name: str) -> None:
    """Raise BadInput if the first bytes of a file are UTF-16, UTF-32 or not text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise not_utf8(name, "UTF-16 or UTF-32")
    if b"\0" in head[:4096] and head[:4096].strip(b"\0"):
        raise not_utf8(name, "binary data")


WHOLE_FILE_BYTES = 256 * 1024 * 1024
"""Most bytes of a .json file that is not a list of rows. Such a file has to be loaded as a whole."""
DIGITS = 4300
"""Most digits of an integer that Python converts by default. A longer integer stays text."""
_NAME_CHECKED_ROWS = 1000
"""The number of first rows in which repeated field names are searched. A file that repeats a name does so in all."""
_ROW_LISTS = ("data", "rows", "examples", "items", "questions")
_SPACE = re.compile(r"[\s,]*")


class RowSink(Protocol):
    """A consumer of rows."""

    def take(self, row: dict[str, Any], size: int) -> None: ...

    def take_all(self, rows: list[dict[str, Any]], size: int) -> None: ...

    def add_broken(self, where: int, what: str) -> None: ...


def read_text(path: Path, split: str, sink: RowSink, most: int | None = None) -> None:
    """Read one file in the format of its suffix. `split` selects the rows of a JSON file with several splits.

    Raises BadInput, OSError, and TooManyBytes if the file has more than `most` bytes.
    """
    match format_of(path.name):
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


def _require_distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedName(next(n for n in names if names.count(n) > 1))
    return row


class _RepeatedName(Exception):
    """A JSON object has a field name twice."""


_decoder = json.JSONDecoder()
_raw = _decoder.raw_decode
_long_integer_decoder = json.JSONDecoder(parse_int=_integer)
_name_checking_decoder = json.JSONDecoder(parse_int=_integer, object_pairs_hook=_require_distinct_names)


def _decoded(text: str, number: int) -> Any:
    """Decode the JSON value of line `number`. Raises ValueError, RecursionError or _RepeatedName."""
    if number <= _NAME_CHECKED_ROWS:
        return _name_checking_decoder.decode(text)
    try:
        value, end = _raw(text) if text.startswith("{") else (None, -1)  # Faster than decode().
        return value if end >= 0 and not text[end:].strip() else _decoder.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # An integer has too many digits.
        return _long_integer_decoder.decode(text)


def _add_value(sink: RowSink, value: Any, number: int, size: int) -> None:
    if isinstance(value, dict):
        sink.take(value, size)
    else:
        sink.add_broken(number, f"a JSON {type(value).__name__}, not an object")


def _broken_reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON"


def _repeats_a_name(name: str, column: str) -> BadInput:
    return BadInput(
        f"{quote(name, 80)} gives one row two columns named {quote(column, 80)}",
        fix="Give each column one name.",
        code="duplicate-columns",
    )


def read_jsonl(path: Path, sink: RowSink, most: int | None = None) -> None:
    """Read a file with one JSON object on each line. Other lines are counted as broken."""
    any_object = False
    foreign = before = 0
    for lines, size in _read_line_groups(path, most):
        rows = _plain_objects(lines) if before >= _NAME_CHECKED_ROWS else None
        if rows is not None:
            any_object = any_object or bool(rows)
            sink.take_all(rows, size)
            before += len(lines)
            continue
        for number, line in enumerate(lines, before + 1):
            if not line.strip():
                continue
            try:
                value = _decoded(line.decode(), number)
            except _RepeatedName as error:
                raise _repeats_a_name(path.name, str(error)) from None
            except (ValueError, RecursionError) as error:
                foreign += isinstance(error, UnicodeDecodeError)
                sink.add_broken(number, _broken_reason(error))
                continue
            any_object = any_object or isinstance(value, dict)
            _add_value(sink, value, number, len(line))
        before += len(lines)
    if foreign and not any_object:
        raise not_utf8(path.name)


try:
    import orjson
except ImportError:  # The toolchain's interpreter may not have the package.
    _fast_loads: Callable[[bytes], Any] | None = None
else:
    _fast_loads = orjson.loads
_SCALARS = frozenset({str, int, bool, type(None)})
_AS_ZEROS = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else byte for byte in range(256))
_WIDE = b"0" * 19
"""A run of digits that may be an integer of more than 64 bits, in a text whose digits are zeros."""
_NESTED = 200


def _plain_objects(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Decode lines with orjson. None if that is not possible, or if the standard library may decode a line differently.

    orjson refuses some lines that the standard library accepts. orjson accepts two kinds of lines with another result:
    an integer of more than 64 bits becomes a float, and nesting may be a little deeper.
    """
    if _fast_loads is None:
        return None
    try:
        rows = list(map(_fast_loads, lines))
    except ValueError:
        return None
    if not set(map(type, rows)) <= {dict}:
        return None
    if not set(map(type, chain.from_iterable(map(dict.values, rows)))) <= _SCALARS:
        if _WIDE in b"\n".join(lines).translate(_AS_ZEROS):
            return None
        if any(line.count(b"[") + line.count(b"{") > _NESTED for line in lines):
            return None
    return rows


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(path: Path, split: str, sink: RowSink, most: int | None = None) -> None:
    """Read a JSON file. Its rows are a list of objects (which is streamed), a list inside an object (named after the
    split or `data`), an object of columns, or JSONL.
    """
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
        for chunk in read_chunks(path, most):
            if first:
                refuse_other_encodings(chunk, path.name)
                chunk, first = chunk.removeprefix(codecs.BOM_UTF8), False
            yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise not_utf8(path.name) from None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_list(texts: Iterable[str], sink: RowSink, name: str) -> None:
    """Decode a list object by object. An incomplete object is decoded again with the next piece of the file."""
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
                _require_end(buffer[place + 1 :], texts, name)
                return
            try:
                value, end = (
                    _name_checking_decoder if number < _NAME_CHECKED_ROWS else _long_integer_decoder
                ).raw_decode(buffer, place)
            except _RepeatedName as error:
                raise _repeats_a_name(name, str(error)) from None
            except RecursionError:
                raise _broken_json(name, "nested too deeply") from None
            except ValueError as error:
                if not _may_be_incomplete(error, len(buffer)):
                    raise _broken_json(name, str(error)) from None
                if len(buffer) - place > LONGEST_LINE:
                    raise line_too_long(name, f"entry {number + 1:,}") from None
                reason = error
                break
            if end == len(buffer) and not isinstance(value, dict):
                break  # A number at the end of the piece may continue in the next piece.
            number += 1
            _add_value(sink, value, number, end - place)
            place = end
        buffer = buffer[place:]
    raise _broken_json(name, str(reason) if buffer.strip() and reason is not None else "the list is not closed")


def _may_be_incomplete(error: ValueError, size: int) -> bool:
    """Return whether a text may be undecodable only because it is incomplete.

    That is so if the error is near its end or inside a string.
    """
    return not isinstance(error, json.JSONDecodeError) or error.pos > size - 16 or "Unterminated" in error.msg


def _require_end(rest: str, texts: Iterable[str], name: str) -> None:
    if rest.strip() or any(text.strip() for text in texts):
        raise _broken_json(name, "something follows the list of rows")


def _read_object(head: str, texts: Iterator[str], split: str, sink: RowSink, name: str) -> None:
    pieces, size = [head], len(head)
    for text in texts:
        pieces.append(text)
        size += len(text)
        if size > WHOLE_FILE_BYTES:
            raise BadInput(
                f"{quote(name, 80)} is one JSON object of more than {WHOLE_FILE_BYTES // 2**20} MiB",
                fix="Write the rows as one list of objects, or convert them to JSONL or Parquet.",
                code="file-too-big",
            )
    try:
        value = _name_checking_decoder.decode("".join(pieces))
    except _RepeatedName as error:
        raise _repeats_a_name(name, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _broken_json(name, "nested too deeply" if isinstance(error, RecursionError) else str(error)) from None
    for number, row in enumerate(_row_list(value, split, name), 1):
        _add_value(sink, row, number, 0)


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


def read_csv(path: Path, sink: RowSink, delimiter: str, most: int | None = None) -> None:
    """Read a table with a header line. All values are text."""
    csv.field_size_limit(LONGEST_LINE)
    source = (line.decode() + "\n" for line in read_lines(path, most))
    try:
        first = next(source, "")
        reader = csv.reader(chain([first], source), delimiter=_delimiter(first, delimiter))
        header = _header(next(reader, []), path.name)
        for row in reader:
            if len(row) == len(header):
                sink.take(dict(zip(header, row, strict=True)), sum(map(len, row)))
            elif row:
                sink.add_broken(reader.line_num, f"{len(row)} fields where the header has {len(header)}")
    except UnicodeDecodeError:
        raise not_utf8(path.name) from None
    except csv.Error as error:
        raise BadInput(
            f"{quote(path.name, 80)} cannot be read as CSV: {quote(str(error), 120)}",
            fix="Mend its quoting: a quote that is opened and not closed swallows all that follows.",
            code="broken-csv",
        ) from None


def _delimiter(header: str, usual: str) -> str:
    """Return the delimiter of a header line. Spreadsheets of many countries use semicolons."""
    return usual if usual in header else next((d for d in (";", "\t") if d in header), usual)


def _header(names: list[str], file: str) -> list[str]:
    """Return the column names. A column without a name (such as an index) is named after its position.

    Raises BadInput if a name occurs twice.
    """
    columns = [name if name.strip() else f"column {place}" for place, name in enumerate(names, 1)]
    repeated = next((n for n in columns if columns.count(n) > 1), None)
    if repeated is not None:
        raise _repeats_a_name(file, repeated)
    return columns
