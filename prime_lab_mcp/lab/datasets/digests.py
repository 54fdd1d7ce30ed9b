"""What a pass over millions of rows remembers of each: eight bytes per column that may be prompt or answer.

From them duplicates, conflicts and leaks are counted over all rows once it is known which columns matter (counting.py).
What a digest is, and when two values have the same: value_keys.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.datasets import golds, options
from prime_lab_mcp.lab.datasets.column_names import ANSWERS, PROMPTS
from prime_lab_mcp.lab.datasets.paths import snake
from prime_lab_mcp.lab.datasets.value_keys import EMPTY, SHORT, Column, any_order, gold_keys, normalised, prompt_keys

MOST_COLUMNS = 16
MOST_BYTES = 512 * 1024 * 1024
"""Digests kept at most; a split with more is counted by its sample."""
FEW = 64
"""A column with at most so many values is one of classes, and no class may be missing from the sample."""


class Kept:
    """The digests of one column. `gold` and `gold_from_one` stay None while they are no others than `prompt`.

    `answers_only`: by its name it holds answers, and another column asks; its digests are those of answers.
    """

    __slots__ = ("answers_only", "gold", "gold_from_one", "prompt", "seen")

    def __init__(self, before: int, answers_only: bool) -> None:
        self.answers_only = answers_only
        self.prompt = array("q", bytes(8 * before))
        self.gold: array[int] | None = None
        self.gold_from_one: array[int] | None = None
        self.seen: set[int] | None = set()

    def golds(self, from_one: bool) -> array[int]:
        """Digests of the values as answers; `from_one`: where they are numbers of options, counted from 1."""
        if from_one and self.gold_from_one is not None:
            return self.gold_from_one
        return self.prompt if self.gold is None else self.gold

    @property
    def size(self) -> int:
        return 8 * len(self.prompt) * (1 + (self.gold is not None) + (self.gold_from_one is not None))


class Digests:
    """Of one split. `named`: columns the caller chose, which are always among those remembered."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        self.columns: dict[str, Kept] = {}
        self.options: tuple[str, ...] | None = None
        self.offered = array("q")
        self.zero_seen: set[str] = set()
        self.rows = 0
        self.dropped = False
        self._named = tuple(named)

    def see(self, chunk: Mapping[str, Column], before: int, rows: int) -> list[int]:
        """Digest one chunk. Returns the places of rows that hold a value of a class for the first time."""
        self.rows = before + rows
        if self.dropped:
            return []
        columns = dict(chunk) | self._nested(chunk)
        if self.options is None:
            self.options = _options(chunk, rows)
        answers = self._answers(columns)
        for name in self._wanted(columns):
            if len(self.columns) < MOST_COLUMNS and name not in self.columns:
                self.columns[name] = Kept(before, name in answers)
        offered = self._offers(chunk, rows) if self.options else None
        fresh: set[int] = set()
        for name, kept in self.columns.items():
            column = columns.get(name)
            if column is None:
                _append(kept, [EMPTY] * rows, None, None)
                continue
            said = gold_keys(column)
            keys = said if said is not None and kept.answers_only else prompt_keys(column)
            first, second = self._golds(name, column, keys if said is None else said, offered)
            fresh.update(_fresh(kept, keys))
            _append(kept, keys, None if first is keys else first, second)
        if sum(kept.size for kept in self.columns.values()) > MOST_BYTES:
            self.columns, self.offered, self.dropped = {}, array("q"), True
        return sorted(fresh)

    def _wanted(self, columns: Mapping[str, Column]) -> list[str]:
        def rank(name: str) -> int:
            return 0 if name in self._named else 1 if snake(name) in _USUAL else 2

        return sorted((n for n in columns if "." not in n or rank(n) < 2 or n in self.columns), key=rank)

    def _nested(self, chunk: Mapping[str, Column]) -> dict[str, Column]:
        """Fields of columns that hold objects, where a field may be the answer (`answers.text`)."""
        found: dict[str, Column] = {}
        for name, column in chunk.items():
            if dict not in column.kinds:
                continue
            fields = dict.fromkeys(f for v in column.values[:50] if isinstance(v, dict) for f in v)
            for field in fields:
                path = f"{name}.{field}"
                if snake(path) in _USUAL or snake(str(field)) in _USUAL or path in self._named:
                    found[path] = _Field([v.get(field) if isinstance(v, dict) else None for v in column.values])
        return found

    def _offers(self, chunk: Mapping[str, Column], rows: int) -> list[Mapping[str, Any]]:
        """The columns of options as rows; remembers which options each row has, in any order."""
        assert self.options
        heads = {path.partition(".")[0] if path not in chunk else path for path in self.options}
        there = [(name, chunk[name].values) for name in heads if name in chunk]
        found: list[Mapping[str, Any]] = [{name: values[place] for name, values in there} for place in range(rows)]
        for row in found:
            texts, _ = options.offered(row, self.options)
            self.offered.append(any_order(texts))
        return found

    def _answers(self, columns: Mapping[str, Column]) -> set[str]:
        """Columns whose names say that they hold answers and ask nothing, where others ask."""
        if not any(snake(name) in _ASKING for name in columns):
            return set()
        return {n for n in columns if snake(n) in _USUAL - _ASKING and n not in self._named}

    def _golds(
        self, name: str, column: Column, keys: list[int], offered: list[Mapping[str, Any]] | None
    ) -> tuple[list[int], list[int] | None]:
        """Digests of the values as answers, and as numbers of options counted from 1 where they may be that."""
        if offered is None or not (name in self._named or snake(name) in _USUAL) or len(column.joined) > 4000 * SHORT:
            return keys, None
        numbers = _numbers(column)
        if "0" in numbers:
            self.zero_seen.add(name)
        first = [self._said(row, name, v, k, 0) for row, v, k in zip(offered, column.values, keys, strict=True)]
        if not numbers or name in self.zero_seen:
            return first, None
        second = [self._said(row, name, v, k, 1) for row, v, k in zip(offered, column.values, keys, strict=True)]
        return first, second

    def _said(self, row: Mapping[str, Any], name: str, value: Any, otherwise: int, base: int) -> int:
        """Digest of the option that a gold names: a letter or a number means nothing by itself."""
        assert self.options
        texts, place = options.offered({**row, name: value}, self.options, name, base)
        return otherwise if place is None else hash(normalised(texts[place]))


_ASKING = frozenset((*PROMPTS, *map(snake, PROMPTS)))
_USUAL = frozenset((*PROMPTS, *ANSWERS, *(snake(n) for n in (*PROMPTS, *ANSWERS))))


class _Field:
    """A column made of one field of another's objects."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.kinds = set(map(type, values))
        self.texts = [v if isinstance(v, str) else "" if v is None else golds.as_text(v) for v in values]
        self.joined = "\0".join(self.texts)


def _options(chunk: Mapping[str, Column], rows: int) -> tuple[str, ...]:
    return options.option_columns(
        [{name: column.values[place] for name, column in chunk.items()} for place in range(min(rows, 50))]
    )


def _numbers(column: Column) -> set[str]:
    return {t for t in set(column.texts[:200]) | ({"0"} & set(column.texts)) if len(t) <= 3 and t.isdecimal()}


def _fresh(kept: Kept, keys: list[int]) -> list[int]:
    if kept.seen is None:
        return []
    new = set(keys) - kept.seen
    if len(new) + len(kept.seen) > FEW:
        kept.seen = None
        return []
    kept.seen |= new
    return [keys.index(key) for key in new]


def _append(kept: Kept, keys: list[int], first: list[int] | None, second: list[int] | None) -> None:
    if first is not None and kept.gold is None:
        kept.gold = array("q", kept.prompt)
    if second is not None and kept.gold_from_one is None:
        kept.gold_from_one = array("q", kept.prompt if kept.gold is None else kept.gold)
    kept.prompt.extend(keys)
    if kept.gold is not None:
        kept.gold.extend(keys if first is None else first)
    if kept.gold_from_one is not None:
        kept.gold_from_one.extend(second or first or keys)
