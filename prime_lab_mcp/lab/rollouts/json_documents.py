"""Streams the records of one JSON document.

A document is a list, or an object with a list of samples, as the platform prints them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from prime_lab_mcp.lab.base.errors import EvalError

SAMPLE_LISTS = ("samples", "rollouts", "data", "items", "results")
"""Keys under which a document stores its records."""
DECODED_WHOLE_BYTES = 16 * 1024 * 1024
"""Bytes up to which a document is decoded as a whole. A larger document is streamed."""
LARGEST_RECORD = 256 * 1024 * 1024
"""Most characters of one record or line that are held in memory."""
_CHUNK = 1 << 20
_BLANK = " \t\r\n"


def is_wrapper(record: Mapping[str, Any]) -> bool:
    """Whether an object contains records and is no record itself."""
    return not ({"reward", "traces", "score"} & record.keys()) and any(
        isinstance(record.get(k), list) for k in SAMPLE_LISTS
    )


def stream_elements(path: Path) -> Iterator[Any]:
    """Yield the elements in order. Raises EvalError if the file is no JSON or ends too early."""
    try:
        with path.open(encoding="utf-8-sig") as source:
            if path.stat().st_size <= DECODED_WHOLE_BYTES:
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
    """Decodes one element at a time and buffers no more text than that element."""

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._ended = False

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the document in order."""
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
        if self._peek() == "]":
            return
        while True:
            yield self._value()
            if self._next() == "]":
                return

    def _value(self) -> Any:
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
