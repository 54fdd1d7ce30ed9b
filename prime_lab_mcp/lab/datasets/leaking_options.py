"""Counts how often the look of an option gives away that it is the right one: the longest, or the second smallest
number.

Authors write right options with more care than wrong ones, or a program writes them in another way. Authors often make
wrong numbers from the right one by the same mistakes, and the right number then has the same rank in every row. A model
can pick by the look, and the reward pays a model that reads no question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from prime_lab_mcp.lab.base.statistics import binomial_tail

_FEWEST_ROWS = 30
_FEWEST_OPTIONS, _MOST_OPTIONS = 3, 12
SHARE = 0.9
"""Smallest share of the rows in which the look must give the right option away; the same as for positions
(docs/validation.md)."""
_CHANCE = 1e-6
"""Largest probability that guesses among the options explain the rows."""
_ABOUT_LOOKS = re.compile(
    r"(?i)\b(?:long\w*|short\w*|length|letters?|characters?|words?|digits?|capital\w*|upper.?case|commas?|brackets?|"
    r"parenthes\w+|punctuat\w+|spell\w*|odd one|differs?|different|only one|most|least|fewest|more|fewer)\b"
)
"""Words of a question that is about what options look like."""
_ABOUT_SIZES = re.compile(
    r"(?i)\b(?:small\w*|larg\w*|big\w*|great\w*|high\w*|low\w*|min|max|minim\w*|maxim\w*|median|middle|between|closest|nearest|second|"
    r"third|rank\w*|sort\w*|order\w*|cheap\w*|expensive|old\w*|young\w*)\b"
)
"""Words of a question that may be about the size of its options."""
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_RANKS = ("smallest", "second smallest", "third smallest")
"""The ranks of numbers that are looked at, from both ends. The largest is the `smallest` of the other end."""


@dataclass(frozen=True, slots=True)
class LeakingLook:
    """A look that tells the right option, the share of the rows in which it does, and the rows."""

    name: str
    share: float
    rows: int


@dataclass(slots=True)
class OptionLooks:
    """Counts for each look the rows in which only the right option has it."""

    rows: int = 0
    guessed: float = 0.0
    """How many rows a guess among the options gets right."""
    about_looks: int = 0
    """Rows whose prompt may ask for the look of an option."""
    about_sizes: int = 0
    """Rows whose prompt may ask for the size of an option."""
    hits: Counter[str] = field(default_factory=Counter)

    def add(self, prompt: str, options: Sequence[str], right: int) -> None:
        """Count one row. `right` is the index of the right option."""
        if not _FEWEST_OPTIONS <= len(options) <= _MOST_OPTIONS:
            return
        self.rows += 1
        self.guessed += 1 / len(options)
        for option in options:
            prompt = prompt.replace(option, " ")
        self.about_looks += _ABOUT_LOOKS.search(prompt) is not None
        self.about_sizes += _ABOUT_SIZES.search(prompt) is not None
        self.hits.update(name for name, look in _LOOKS.items() if look(options) == right)

    def best(self) -> LeakingLook | None:
        """Return the look that tells nearly all right options; None without one, or if questions are about looks."""
        hits = self.hits
        if self.about_sizes > (1 - SHARE) * self.rows:
            hits = Counter({name: times for name, times in hits.items() if name not in _BY_RANK})
        ((name, times), *_) = hits.most_common(1) or [("", 0)]
        if self.rows < _FEWEST_ROWS or times < SHARE * self.rows or self.about_looks > (1 - SHARE) * self.rows:
            return None
        if binomial_tail(times, self.rows, self.guessed / self.rows) > _CHANCE:
            return None
        return LeakingLook(name, times / self.rows, self.rows)


def _extreme(sizes: Sequence[int], best: int) -> int | None:
    """Return the index of the only option of the size `best`; None if several have it."""
    return sizes.index(best) if sizes.count(best) == 1 else None


def _only(pattern: str) -> Callable[[Sequence[str]], int | None]:
    found = re.compile(pattern)
    return lambda options: _extreme([int(found.search(option) is not None) for option in options], 1)


def _only_without(pattern: str) -> Callable[[Sequence[str]], int | None]:
    found = re.compile(pattern)
    return lambda options: _extreme([int(found.search(option) is not None) for option in options], 0)


def _sizes(size: Callable[[str], int], pick: Callable[[Sequence[int]], int]) -> Callable[[Sequence[str]], int | None]:
    def of(options: Sequence[str]) -> int | None:
        sizes = [size(option) for option in options]
        return _extreme(sizes, pick(sizes))

    return of


def _rank(place: int) -> Callable[[Sequence[str]], int | None]:
    """Pick the option whose number has a place among all, from 0 for the smallest, or from -1 for the largest."""

    def of(options: Sequence[str]) -> int | None:
        found = [_NUMBER.findall(option) for option in options]
        if any(len(numbers) != 1 for numbers in found):
            return None
        values = [Decimal(numbers[0].replace(",", "").replace("−", "-")) for numbers in found]
        in_order = sorted(values)
        if len(set(values)) < len(values) or not -len(values) <= place < len(values):
            return None
        return values.index(in_order[place])

    return of


_BY_RANK: Mapping[str, Callable[[Sequence[str]], int | None]] = {
    **{f"the {name} number": _rank(at) for at, name in enumerate(_RANKS)},
    **{f"the {name.replace('smallest', 'largest')} number": _rank(-1 - at) for at, name in enumerate(_RANKS)},
}
_LOOKS: Mapping[str, Callable[[Sequence[str]], int | None]] = {
    **_BY_RANK,
    "the longest": _sizes(len, max),
    "the shortest": _sizes(len, min),
    "the one with the most words": _sizes(lambda option: len(option.split()), max),
    "the only one with a capital at its beginning": _only(r"^\s*[A-Z]"),
    "the only one without a capital at its beginning": _only_without(r"^\s*[A-Z]"),
    "the only one with a full stop at its end": _only(r"\.\s*$"),
    "the only one without a full stop at its end": _only_without(r"\.\s*$"),
    "the only one with a digit": _only(r"\d"),
    "the only one with brackets": _only(r"[(\[]"),
    "the only one with a comma": _only(r","),
    "the only one with spaces at an end": _only(r"^\s|\s$"),
}
