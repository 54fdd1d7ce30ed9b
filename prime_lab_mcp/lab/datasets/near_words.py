"""What near-duplicate search compares of a prompt: its words, its numbers, its lines, less what is template."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

CUT = 2_000
"""Characters of a prompt that are compared: its first and its last half of so many."""
LONG = 25
"""Words from which on runs of words are compared, not bags of them (facts/validation 1.5)."""
GRAM = 8
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_OPERATION = re.compile(r"[\w)}]\s{0,2}[+*/^=<>×÷≤≥]\s{0,2}[\w(\\{$-]|[0-9)]\s{0,2}[-−]\s{0,2}[0-9(]")
_SYMBOLS = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[-−+*/×÷^<>=≤≥()%!]")
_COUNTS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip


_NEW = 1.0


def _plain(line: str) -> str:
    return " ".join((*_WORD.findall(line), *_NUMBER.findall(line)))


@dataclass(frozen=True, slots=True)
class Features:
    """`words` in order, by number; `numbers`: all of them as one key, in order where one calculates."""

    words: tuple[int, ...]
    bag: frozenset[int]
    numbers: str
    order: tuple[str, ...]
    """The numbers as they come."""
    lines: tuple[frozenset[int], ...]

    def grams(self, length: int = GRAM) -> set[int]:
        """Hashes of every run of so many words."""
        return {hash(self.words[n : n + length]) for n in range(len(self.words) - length + 1)}


@dataclass(slots=True)
class Vocabulary:
    """Words by number, in how many training prompts each is, and the lines that are template."""

    rows: int = 0
    ids: dict[str, int] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    weights: dict[int, float] = field(default_factory=dict)
    template: frozenset[str] = frozenset()

    def learn_template(self, texts: Sequence[str]) -> None:
        """A line that a fifth of the prompts have says what to do; it does not tell tasks apart."""
        lines = Counter(line for text in texts if "\n" in text for line in set(map(_plain, text.split("\n"))))
        least = max(10, 0.2 * len(texts))
        self.template = frozenset(line for line, times in lines.items() if line and times >= least)

    def read(self, text: str, *, training: bool) -> Features:
        """The features of one prompt; a training prompt is counted."""
        lines = [line for line in text.casefold().split("\n") if line.strip()]
        told = [line for line in lines if _plain(line) not in self.template] if self.template else lines
        read = [self._line(line) for line in told]
        words = tuple(w for ids, _ in read for w in ids)
        bag = frozenset(words)
        if training:
            self.rows += 1
            self.counts.update(bag)
        found = [number for _, numbers in read for number in numbers]
        joined = "\n".join(told)
        if found and _OPERATION.search(joined):
            key = " ".join(s.replace(",", "") for s in _SYMBOLS.findall(joined))
        else:
            key = " ".join(sorted(found))
        apart = tuple(frozenset(self._line(line)[0]) for line in lines) if len(lines) > 1 else ()
        return Features(words, bag, key, tuple(found), apart)

    def _line(self, line: str) -> tuple[list[int], list[str]]:
        found, ids = _WORD.findall(line), self.ids
        numbers = [n.replace(",", "") for n in _NUMBER.findall(line)]
        if not _COUNTS.keys().isdisjoint(found):
            numbers += [_COUNTS[word] for word in found if word in _COUNTS]
            found = [word for word in found if word not in _COUNTS]
        return [ids.setdefault(word, len(ids)) for word in found], numbers

    def weight(self, word: int) -> float:
        """Inverse document frequency: 0 for a word of every prompt. A word of no training prompt is of the wording.

        To be asked when every training prompt is read.
        """
        known = self.weights.get(word)
        if known is None:
            times = self.counts[word]
            known = self.weights[word] = max(0.0, math.log((self.rows + 1) / times)) if times else _NEW
        return known

    def heaviest(self, bag: Iterable[int]) -> list[int]:
        """Words, the heaviest first; ties in one order for all."""
        return sorted(bag, key=lambda word: (-self.weight(word), word))
