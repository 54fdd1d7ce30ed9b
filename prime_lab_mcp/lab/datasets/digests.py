"""Computes digests of prompts and golds for all rows of a split, and counts duplicates, conflicts and leaks.

Two prompts have equal digests if they ask the same, and two golds if they are the same answer; `golds.normalised_text`
and `tasks.gold_key` define both. For each row, a scan stores eight bytes for each column that may be prompt or answer.

The digests are Python's string hashes: 64 bits, keyed, and several times as fast as a cryptographic hash. They are only
valid within the process that computes them.

Duplicates, conflicts and leaks are counted over all rows after the prompt and answer columns are chosen. The digests
are counted in parts, so that only the rows of one part need memory at a time.
"""

from __future__ import annotations

import json
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, repeat
from operator import mod, not_
from typing import Any, Protocol

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import golds, options
from prime_lab_mcp.lab.datasets.columns import ANSWER_NAMES, PROMPT_NAMES
from prime_lab_mcp.lab.datasets.row_values import prompt_text, snake_case
from prime_lab_mcp.lab.datasets.tasks import EXAMPLE_ROWS, FlawTally, RepeatCounts

EMPTY_DIGEST = 0
"""The digest of a missing gold and of an empty text."""
SHORT_TEXT = 40
"""Characters. A longer text is not an answer without an explanation."""
_OTHER_SPACES = "\x85\u1680\u2028\u2029"
_SIMPLE = frozenset({str, type(None)})


class ChunkColumn(Protocol):
    """One column of a chunk: its values, the values as texts, and the texts joined with NUL (in UTF-8: `raw`)."""

    values: list[Any]
    texts: list[str]
    joined: str
    raw: bytes
    kinds: set[type]


def prompt_keys(column: ChunkColumn) -> list[int]:
    """Return the digests of the values as prompts. They are equal if the normalised texts are equal."""
    if column.kinds & {list, dict}:
        return [
            hash(golds.normalised_text(prompt_text(v) if isinstance(v, list | dict) else t))
            for v, t in zip(column.values, column.texts, strict=True)
        ]
    if column.joined.isascii():
        return _ascii_digests(column.texts, column.raw)
    ascii_texts = [t for t in column.texts if t.isascii()]
    other = [t for t in column.texts if not t.isascii()]
    first, second = (
        iter(_text_digests(ascii_texts, "\0".join(ascii_texts))),
        iter(_text_digests(other, "\0".join(other))),
    )
    return [next(first) if t.isascii() else next(second) for t in column.texts]


def _text_digests(texts: list[str], joined: str) -> list[int]:
    """Return the digests of many texts. All texts are normalised as one long text, which is faster than one by one."""
    if not texts:
        return []
    if joined.isascii():
        return _ascii_digests(texts, joined.encode("ascii"))
    joined = unicodedata.normalize("NFKC", joined).casefold()
    for mark in golds.ASCII_SPACES + _OTHER_SPACES:
        if mark in joined:
            joined = joined.replace(mark, " ")
    return _normalised_digests(texts, joined)


def _ascii_digests(texts: list[str], raw: bytes) -> list[int]:
    """Return the digests of ASCII texts, joined with NUL. CPython hashes bytes like the text that they spell."""
    raw = raw.translate(golds.LOWER_WITH_SPACES)
    while raw.rfind(b"  ") >= 0:  # CPython finds two bytes from the end in half the time that `in` takes.
        raw = raw.replace(b"  ", b" ")
    normalised = raw.split(b"\0")
    if len(normalised) != len(texts):  # One of the texts contains NUL.
        return [hash(golds.normalised_text(t)) for t in texts]
    return list(map(hash, map(bytes.strip, normalised)))


def _normalised_digests(texts: list[str], joined: str) -> list[int]:
    """Return the digests of texts that are joined with NUL in one case, with a space for each white character."""
    while "  " in joined:
        joined = joined.replace("  ", " ")
    normalised = joined.split("\0")
    if len(normalised) != len(texts):  # One of the texts contains NUL.
        return [hash(golds.normalised_text(t)) for t in texts]
    return list(map(hash, map(str.strip, normalised)))


def gold_keys(column: ChunkColumn) -> list[int] | None:
    """Return the digests of the answers in the values: the number after ####, the content of the box, or the number.

    The result is None if the digests equal those of `prompt_keys`.
    """
    texts, joined = column.texts, column.joined
    if not column.kinds <= _SIMPLE:
        return [_gold_key(v, t) for v, t in zip(column.values, texts, strict=True)]
    # The search for one rare character is much faster than the search for a word.
    marked, boxed = "#" in joined and "####" in joined, "\\" in joined and "box" in joined
    if not marked and not boxed and min(map(len, texts), default=0) > SHORT_TEXT and not _any_json(texts, joined):
        return None
    if not marked:
        return [_short_digest(t) if len(t) <= SHORT_TEXT else _long_digest(t, False, boxed) for t in texts]
    tails = [text.rpartition("####")[2].strip() for text in texts]  # The whole text if it has no mark.
    keys = list(map(hash, tails))  # Right for a tail that is already in the form of golds.canonical_number.
    if _all_canonical(tails):
        return keys
    for place in compress(range(len(texts)), map(not_, _canonical(tails))):
        text = texts[place]
        keys[place] = _short_digest(text) if len(text) <= SHORT_TEXT else _long_digest(text, True, boxed)
    return keys


def _all_canonical(tails: list[str]) -> bool:
    """Return whether all texts are integers in the form of `golds.canonical_number`; faster than one by one."""
    joined = "".join(tails)
    return (
        joined.isdigit()
        and joined.isascii()
        and {"", "0"}.isdisjoint({tail[:1] for tail in tails})
        and max(map(len, tails)) <= SHORT_TEXT
    )


def _canonical(tails: list[str]) -> list[bool]:
    """Return which texts are integers in the form of `golds.canonical_number`."""
    return [tail.isdigit() and tail[0] != "0" and len(tail) <= SHORT_TEXT and tail.isascii() for tail in tails]


def _any_json(texts: list[str], joined: str) -> bool:
    return ("[" in joined or "{" in joined) and any(t[:1] in ("[", "{") for t in texts)


def _gold_key(value: Any, text: str) -> int:
    if isinstance(value, str):
        return _short_digest(value) if len(value) <= SHORT_TEXT else _long_digest(value, True, True)
    if isinstance(value, list | dict):
        return EMPTY_DIGEST if golds.is_empty(value) else _structured_digest(value)
    return _short_digest(text)


@lru_cache(65_536)
def _short_digest(text: str) -> int:
    if golds.is_empty(text):
        return EMPTY_DIGEST
    number = golds.number_in(text)
    return hash(golds.canonical_number(number)) if number is not None else _long_digest(text, True, True)


def _long_digest(text: str, marked: bool, boxed: bool) -> int:
    if marked and "####" in text:
        tail = text[text.rfind("####") + 4 :].strip()
        number = _number(tail) if "\n" not in tail else None
        if number is not None:
            return number
    if boxed and "box" in text and (inside := golds.boxed_content(text)) is not None:
        return hash(golds.normalised_text(inside))
    if text[:1] in ("[", "{"):
        try:
            return _structured_digest(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return hash(golds.normalised_text(text))


@lru_cache(65_536)
def _number(text: str) -> int | None:
    number = golds.number_in(text)
    return None if number is None else hash(golds.canonical_number(number))


def _structured_digest(value: Any) -> int:
    """Return the digest of a list of answers, in any order, or of the whole content of an object."""
    if isinstance(value, dict):
        listed = next((value[k] for k in ("text", "spans", "aliases") if isinstance(value.get(k), list)), None)
        value = golds.gold_text(value) if listed is None else listed
    if isinstance(value, list):
        return hash(tuple(sorted({golds.normalised_text(golds.gold_text(v)) for v in value})))
    return hash(golds.normalised_text(golds.gold_text(value)))


def unordered_digest(texts: Sequence[str]) -> int:
    """Return a digest of a row's options that does not depend on their order."""
    return hash(tuple(sorted(map(golds.normalised_text, texts)))) if texts else EMPTY_DIGEST


MOST_COLUMNS = 16
MOST_BYTES = 512 * 1024 * 1024
"""Most bytes of digests. For a split with more, only the sampled rows are counted."""
FEW_ROWS = 64
"""A column with at most this many distinct values is a column of classes. The sample must contain every class."""


class ColumnDigests:
    """The digests of one column: as prompts (`prompt`) and as answers (`gold`).

    `gold_from_one` are the digests as answers if option numbers count from 1. `gold` and `gold_from_one` stay None
    while they equal `prompt`. `answers_only` says that the column's name is that of an answer column, and that another
    column is the prompt. `prompt` then holds digests of answers.
    """

    __slots__ = ("answers_only", "distinct", "gold", "gold_from_one", "prompt")

    def __init__(self, before: int, answers_only: bool) -> None:
        self.answers_only = answers_only
        self.prompt = array("q", bytes(8 * before))
        self.gold: array[int] | None = None
        self.gold_from_one: array[int] | None = None
        self.distinct: set[int] | None = set()

    def golds(self, from_one: bool) -> array[int]:
        """Return the digests of the values as answers. With `from_one`, option numbers count from 1."""
        if from_one and self.gold_from_one is not None:
            return self.gold_from_one
        return self.prompt if self.gold is None else self.gold

    @property
    def size(self) -> int:
        return 8 * len(self.prompt) * (1 + (self.gold is not None) + (self.gold_from_one is not None))


class SplitDigests:
    """The digests of the columns of one split. The columns that the caller has named are always included."""

    def __init__(self, requested_columns: Sequence[str] = ()) -> None:
        self.columns: dict[str, ColumnDigests] = {}
        self.options: tuple[str, ...] | None = None
        self.offered = array("q")
        self.zero_based: set[str] = set()
        self.rows = 0
        self.dropped = False
        self._requested_columns = tuple(requested_columns)
        self._names: tuple[str, ...] = ()

    def add(self, chunk: Mapping[str, ChunkColumn], before: int, rows: int) -> list[int]:
        """Add the digests of one chunk. Returns the positions of rows in which a class occurs for the first time."""
        self.rows = before + rows
        if self.dropped:
            return []
        columns = dict(chunk) | self._nested(chunk)
        if self.options is None:
            self.options = _options(chunk, rows)
        if (names := tuple(columns)) != self._names:  # Nearly all chunks have the columns of the one before.
            self._names = names
            answers = self._answers(columns)
            for name in self._tracked_columns(columns):
                if len(self.columns) < MOST_COLUMNS and name not in self.columns:
                    self.columns[name] = ColumnDigests(before, name in answers)
        offered = self._option_rows(chunk, rows) if self.options else None
        fresh: set[int] = set()
        for name, digests in self.columns.items():
            column = columns.get(name)
            if column is None:
                _append(digests, [EMPTY_DIGEST] * rows, None, None)
                continue
            answer_keys = gold_keys(column)
            keys = answer_keys if answer_keys is not None and digests.answers_only else prompt_keys(column)
            first, second = self._golds(name, column, keys if answer_keys is None else answer_keys, offered)
            fresh.update(_new_values(digests, keys))
            _append(digests, keys, None if first is keys else first, second)
        if sum(digests.size for digests in self.columns.values()) > MOST_BYTES:
            self.columns, self.offered, self.dropped = {}, array("q"), True
        return sorted(fresh)

    def _tracked_columns(self, columns: Mapping[str, ChunkColumn]) -> list[str]:
        def rank(name: str) -> int:
            return 0 if name in self._requested_columns else 1 if snake_case(name) in _COLUMN_NAMES else 2

        return sorted((n for n in columns if "." not in n or rank(n) < 2 or n in self.columns), key=rank)

    def _nested(self, chunk: Mapping[str, ChunkColumn]) -> dict[str, ChunkColumn]:
        """Return the fields of columns of objects that may be the prompt or answer (`answers.text`)."""
        fields_by_path: dict[str, ChunkColumn] = {}
        for name, column in chunk.items():
            if dict not in column.kinds:
                continue
            fields = dict.fromkeys(f for v in column.values[:50] if isinstance(v, dict) for f in v)
            for field in fields:
                path = f"{name}.{field}"
                if (
                    snake_case(path) in _COLUMN_NAMES
                    or snake_case(str(field)) in _COLUMN_NAMES
                    or path in self._requested_columns
                ):
                    fields_by_path[path] = _Field(
                        [v.get(field) if isinstance(v, dict) else None for v in column.values]
                    )
        return fields_by_path

    def _option_rows(self, chunk: Mapping[str, ChunkColumn], rows: int) -> list[Mapping[str, Any]]:
        """Return rows with only the option columns. Adds a digest of each row's options to `offered`."""
        assert self.options
        heads = {path.partition(".")[0] if path not in chunk else path for path in self.options}
        columns = [(name, chunk[name].values) for name in heads if name in chunk]
        option_rows: list[Mapping[str, Any]] = [
            {name: values[place] for name, values in columns} for place in range(rows)
        ]
        for row in option_rows:
            texts, _ = options.options_of_row(row, self.options)
            self.offered.append(unordered_digest(texts))
        return option_rows

    def _answers(self, columns: Mapping[str, ChunkColumn]) -> set[str]:
        """Return the columns whose names are those of answer columns; none if no column has the name of a prompt."""
        if not any(snake_case(name) in _PROMPT_COLUMN_NAMES for name in columns):
            return set()
        return {
            n
            for n in columns
            if snake_case(n) in _COLUMN_NAMES - _PROMPT_COLUMN_NAMES and n not in self._requested_columns
        }

    def _golds(
        self, name: str, column: ChunkColumn, keys: list[int], offered: list[Mapping[str, Any]] | None
    ) -> tuple[list[int], list[int] | None]:
        """Return the digests of the values as answers, and as option numbers that count from 1 if that is possible."""
        if (
            offered is None
            or not (name in self._requested_columns or snake_case(name) in _COLUMN_NAMES)
            or len(column.joined) > 4000 * SHORT_TEXT
        ):
            return keys, None
        numbers = _numbers(column)
        if "0" in numbers:
            self.zero_based.add(name)
        first = [
            self._option_digest(row, name, v, k, 0) for row, v, k in zip(offered, column.values, keys, strict=True)
        ]
        if not numbers or name in self.zero_based:
            return first, None
        second = [
            self._option_digest(row, name, v, k, 1) for row, v, k in zip(offered, column.values, keys, strict=True)
        ]
        return first, second

    def _option_digest(self, row: Mapping[str, Any], name: str, value: Any, otherwise: int, base: int) -> int:
        """Return the digest of the option that a gold names. A letter or number alone would have no meaning."""
        assert self.options
        texts, place = options.options_of_row({**row, name: value}, self.options, name, base)
        return otherwise if place is None else hash(golds.normalised_text(texts[place]))


_PROMPT_COLUMN_NAMES = frozenset((*PROMPT_NAMES, *map(snake_case, PROMPT_NAMES)))
_COLUMN_NAMES = frozenset((*PROMPT_NAMES, *ANSWER_NAMES, *(snake_case(n) for n in (*PROMPT_NAMES, *ANSWER_NAMES))))


class _Field:
    """A column made of one field of another column's objects."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.kinds = set(map(type, values))
        self.texts = [v if isinstance(v, str) else "" if v is None else golds.gold_text(v) for v in values]
        self.joined = "\0".join(self.texts)
        self.raw = self.joined.encode("utf-8", "surrogatepass")


def _options(chunk: Mapping[str, ChunkColumn], rows: int) -> tuple[str, ...]:
    return options.option_columns(
        [{name: column.values[place] for name, column in chunk.items()} for place in range(min(rows, 50))]
    )


def _numbers(column: ChunkColumn) -> set[str]:
    return {t for t in set(column.texts[:200]) | ({"0"} & set(column.texts)) if len(t) <= 3 and t.isdecimal()}


def _new_values(digests: ColumnDigests, keys: list[int]) -> list[int]:
    if digests.distinct is None:
        return []
    new = set(keys) - digests.distinct
    if len(new) + len(digests.distinct) > FEW_ROWS:
        digests.distinct = None
        return []
    digests.distinct |= new
    return [keys.index(key) for key in new]


def _append(digests: ColumnDigests, keys: list[int], first: list[int] | None, second: list[int] | None) -> None:
    if first is not None and digests.gold is None:
        digests.gold = array("q", digests.prompt)
    if second is not None and digests.gold_from_one is None:
        digests.gold_from_one = array("q", digests.prompt if digests.gold is None else digests.gold)
    digests.prompt.fromlist(keys)
    if digests.gold is not None:
        digests.gold.fromlist(keys if first is None else first)
    if digests.gold_from_one is not None:
        digests.gold_from_one.fromlist(second or first or keys)


PART = 500_000
"""Approximate number of rows that are counted at a time."""
_SEARCHED_FLAWS = 20_000
"""Flawed rows among which examples with known text are searched."""

TextOf = Callable[[int], str | None]


def row_task_keys(digests: SplitDigests, prompt: Sequence[str]) -> array[int] | None:
    """Return the digest of each row's prompt and options; None if a prompt column has no digests."""
    columns = [digests.columns.get(name) for name in prompt]
    parts = [column.prompt for column in columns if column is not None and not column.answers_only]
    if not parts or digests.dropped or len(parts) < len(columns):
        return None
    if digests.options:
        parts.append(digests.offered)
    if len(parts) == 1:
        return parts[0]
    return array("q", map(hash, zip(*parts, strict=True)))


def row_gold_keys(digests: SplitDigests, answer: str) -> array[int] | None:
    """Return the digest of each row's answer; None if the column has no digests."""
    column = digests.columns.get(answer)
    if column is None or digests.dropped:
        return None
    return column.golds(from_one=answer not in digests.zero_based)


class _Flaws:
    """Counts the rows with a flaw, and collects the first ones as examples. Rows with known text are preferred."""

    def __init__(self) -> None:
        self.total = 0
        self._first: list[tuple[int, int]] = []

    def add(self, row: int, other: int) -> None:
        self.total += 1
        if len(self._first) < _SEARCHED_FLAWS:
            self._first.append((row, other))

    def tally(self, text: TextOf, other_text: TextOf, other_name: str) -> FlawTally:
        entries = sorted(self._first)
        with_text = [(row, other) for row, other in entries if text(row) is not None or other_text(other) is not None]
        tally = FlawTally(total=self.total)
        for row, other in (with_text or entries)[:EXAMPLE_ROWS]:
            prompt = text(row) or other_text(other)
            value = {} if prompt is None else {"value": quote(prompt, 160)}
            tally.examples.append({"row": row, **value, other_name: other})
        return tally


def count_repeats(
    keys: array[int],
    golds: array[int] | None,
    held_out: array[int] | None,
    held_golds: array[int] | None = None,
    *,
    text: TextOf,
    held_text: TextOf,
) -> RepeatCounts:
    """Count duplicates, conflicts and leaks from digests of rows.

    `keys` are the prompt digests of the training rows, `golds` their gold digests, and `held_out` the prompt digests of
    the held-out rows, `held_golds` their gold digests (see `row_task_keys` and `row_gold_keys`).

    A duplicate repeats an earlier prompt. A conflict is a duplicate whose answer differs from the first. A leak is a
    held-out row whose prompt occurs in the training rows. `text` and `held_text` return the prompt of a row, or None if
    it is not known.
    """
    duplicates, conflicts, leaks = _Flaws(), _Flaws(), _Flaws()
    copies, most_frequent = _Flaws(), 1
    parts = max(1, len(keys) // PART)
    held_parts = list(_parts(held_out or array("q"), parts))
    first: dict[int, int] = {}
    for rows, held_rows in zip(_parts(keys, parts), held_parts, strict=True):
        first = {}  # Frees the part before, so that only one part needs memory.
        distinct = set(keys if parts == 1 else map(keys.__getitem__, rows))
        if len(distinct) == len(rows) and distinct.isdisjoint(map(held_out.__getitem__, held_rows) if held_out else ()):
            continue  # No row of this part repeats another.
        del distinct
        # Of equal keys, the last one sets the value, so the rows are in reverse order.
        first = dict(zip(map(keys.__getitem__, reversed(rows)), reversed(rows), strict=True))
        repeated: Counter[int] = Counter()
        later_golds: set[tuple[int, int]] = set()
        for row in rows if len(first) < len(rows) else ():
            first_row = first[keys[row]]
            if first_row == row:
                continue
            duplicates.add(row, first_row)
            repeated[keys[row]] += 1
            if golds is not None and golds[row] != golds[first_row]:
                later_golds.add((keys[row], golds[row]))
            if (
                golds is not None
                and EMPTY_DIGEST not in (golds[row], golds[first_row])
                and golds[row] != golds[first_row]
            ):
                conflicts.add(row, first_row)
        for row in held_rows:
            assert held_out is not None
            if (first_row := first.get(held_out[row], -1)) >= 0:
                leaks.add(row, first_row)
                if golds is not None and held_golds is not None:
                    key, gold = held_out[row], held_golds[row]
                    if (
                        gold == EMPTY_DIGEST
                        or golds[first_row] in (EMPTY_DIGEST, gold)
                        or not later_golds.isdisjoint(((key, gold), (key, EMPTY_DIGEST)))
                    ):
                        copies.add(row, first_row)
        most_frequent = max(most_frequent, 1 + max(repeated.values(), default=0))
    return RepeatCounts(
        rows=len(keys),
        held_out=len(held_out or ()),
        duplicates=duplicates.tally(text, text, "first_row"),
        conflicts=conflicts.tally(text, text, "first_row"),
        leaks=leaks.tally(held_text, text, "train_row"),
        copies=None if golds is None or held_golds is None else copies.tally(held_text, text, "train_row"),
        most_frequent=most_frequent,
    )


def _parts(keys: array[int], parts: int) -> Iterator[Sequence[int]]:
    if parts == 1:
        yield range(len(keys))
        return
    part_by_row = array("L", map(mod, keys, repeat(parts)))
    for part in range(parts):
        yield array("L", compress(range(len(keys)), map(part.__eq__, part_by_row)))
