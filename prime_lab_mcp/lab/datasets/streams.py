"""Bytes of a dataset file as chunks and lines, unpacked as they are read and never held whole.

Standard library only; zstd through pyarrow, which only the toolchain's interpreter has.
"""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

LINE = 16 * 1024 * 1024
"""Bytes of one line or one JSON object: a longer one is no row of text."""
TEXT = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
TABLES = (".parquet", ".arrow")
PACKED = (".gz", ".zst")
_CHUNK = 1024 * 1024
_BOMB_SIZE = 1024**3
_BOMB_RATIO = 150
"""Text packs about 3 to 20 times, and text that repeats itself a little more. The most gzip can do is 1,032 times."""


class TooMuch(Exception):
    """More bytes than the caller wants to read in this process."""


def format_of(name: str) -> str | None:
    """The ending that tells the format (`.jsonl` of `train.jsonl.gz`); None for what is no dataset file."""
    packed = packing_of(name)
    ending = Path(name.removesuffix(packed) if packed else name).suffix
    return ending if ending in TEXT or (ending in TABLES and packed is None) else None


def packing_of(name: str) -> str | None:
    return next((p for p in PACKED if name.endswith(p)), None)


def endings() -> str:
    """The known endings, for messages."""
    return f"{', '.join((*TEXT, *TABLES))} (text also as {' and '.join(PACKED)})"


def chunks(path: Path, most: int | None = None) -> Iterator[bytes]:
    """The unpacked bytes of a file. Raises BadInput, and TooMuch when there are more than `most`."""
    packed = packing_of(path.name)
    size = path.stat().st_size
    seen = 0
    try:
        with _opened(path, packed) as stream:
            while chunk := stream.read(_CHUNK):
                seen += len(chunk)
                if most is not None and seen > most:
                    raise TooMuch
                if packed and seen > _BOMB_SIZE and seen > _BOMB_RATIO * size:
                    raise BadInput(
                        f"{quote(path.name, 80)} unpacks to more than {_BOMB_RATIO} times its size; that is no dataset",
                        fix="Look at what the archive holds before anything else reads it.",
                        code="decompression-bomb",
                    )
                yield bytes(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _broken(path, packed, isinstance(error, EOFError)) from None
    except (OSError, ValueError) as error:  # pyarrow's errors of packed data are these two
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


def lines(path: Path, most: int | None = None) -> Iterator[bytes]:
    """Lines without their line feed, the byte order mark removed. Raises BadInput (`line-too-long`, `not-utf8`)."""
    number, carry, first = 0, b"", True
    for chunk in chunks(path, most):
        if first:
            refuse_other_encodings(chunk, path.name)
            chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
        *whole, carry = (carry + chunk).split(b"\n")
        if max(map(len, whole), default=0) > LINE or len(carry) > LINE:
            before = next((i for i, line in enumerate(whole) if len(line) > LINE), len(whole))
            raise too_long(path.name, f"line {number + before + 1:,}")
        number += len(whole)
        yield from whole
    if carry:
        yield carry


def too_long(name: str, what: str) -> BadInput:
    return BadInput(
        f"{what} of {quote(name, 80)} is longer than {LINE / 2**20:g} MiB",
        fix="Write one row per line, or store the dataset as Parquet.",
        code="line-too-long",
    )


def not_utf8(name: str, found: str = "") -> BadInput:
    return BadInput(
        f"{quote(name, 80)} is not UTF-8 text{f'; it looks like {found}' if found else ''}",
        fix="Convert the file to UTF-8, for example with iconv -t UTF-8.",
        code="not-utf8",
    )


def refuse_other_encodings(head: bytes, name: str) -> None:
    """Raises BadInput for what begins like UTF-16, UTF-32 or like no text at all."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise not_utf8(name, "UTF-16 or UTF-32")
    if b"\0" in head[:4096] and head[:4096].strip(b"\0"):
        raise not_utf8(name, "binary data")
