"""Reads what a search for paraphrases compares of a prompt: its words, its numbers, its drawings and its lines."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

GRAM = 8
"""Words of a run."""
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_OPERATION = re.compile(r"[\w)}]\s{0,2}[+*/^=<>×÷≤≥]\s{0,2}[\w(\\{$-]|[0-9)]\s{0,2}[-−]\s{0,2}[0-9(]")
_SYMBOLS = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[-−+*/×÷^<>=≤≥()%!]")
_NUMBER_WORDS = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
}
_DAYS = (
    "january february march april june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday"
)
_NUMBER_WORDS |= {day: day for day in _DAYS.split()}
"""Words that say which task it is, as numbers do. `may` is not among them, because it is a verb more often."""


_LETTER = re.compile(r"(?<![\w'])[A-HJ-Z](?![\w'])")
"""A capital letter alone, as a name of a block, a point or an option. `I` is a word."""
_RELATED = re.compile(rf"{_LETTER.pattern}|[<>→]")
"""Letters with the marks between them: `A < B` and `C` is not `A` and `B < C`."""
_NEGATION = re.compile(r"\b(?:not|no|never|without|none|nor|neither|cannot)\b|n['\u2019]t\b")
"""Words that turn a statement round: the number of them says which of two tasks a prompt is."""
_SMALL_LETTER = re.compile(r"(?<![\w'\u2019.-])[a-hj-z](?![\w'\u2019.-])")
"""A small letter alone. `a` is an article where no other letter stands alone, and a letter among others."""
_UNKNOWN_WORD_WEIGHT = 1.0
_RULED = frozenset("-=*_~#+|: ")
"""Marks of lines that only separate parts of a prompt or a table."""


def _drawing(text: str) -> str:
    """Return the lines of a prompt that are drawn with marks rather than written, without spaces, such as `#..L.##`.

    At least half of the characters of such a line are neither letters nor digits.
    """
    drawn = []
    for line in text.split("\n"):
        marks = "".join(line.split())
        if len(marks) >= 3 and 2 * sum(map(str.isalnum, marks)) <= len(marks) and not _RULED.issuperset(marks):
            drawn.append(marks)
    return "\n".join(drawn)


def comparable_line(line: str) -> str:
    """Return the words of a line and then its numbers, without everything else."""
    return " ".join((*_WORD.findall(line), *_NUMBER.findall(line)))


@dataclass(frozen=True, slots=True)
class PromptFeatures:
    """The features of one prompt.

    `words` are the ids of its words in order, and `bag` is the set of them. `numbers` is a text of all its numbers,
    which keeps their order if the prompt has a calculation, and of letters, negations and drawings. `lines` are the
    word sets of its lines, if it has several.
    """

    words: tuple[int, ...]
    bag: frozenset[int]
    numbers: str
    order: tuple[str, ...]
    """The numbers in the order of the prompt."""
    lines: tuple[frozenset[int], ...]

    def grams(self, length: int = GRAM) -> set[int]:
        """Return the hashes of all runs of `length` words."""
        return {hash(self.words[n : n + length]) for n in range(len(self.words) - length + 1)}


@dataclass(slots=True)
class Vocabulary:
    """The words of all prompts: their ids, and the number of training prompts that contain each.

    `template` are lines that many training prompts share.
    """

    rows: int = 0
    ids: dict[str, int] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    weights: dict[int, float] = field(default_factory=dict)
    template: frozenset[str] = frozenset()

    def learn_template(self, texts: Sequence[str]) -> None:
        """Find the lines of the template. A line that a fifth of the prompts share is an instruction, not a task."""
        lines = Counter(line for text in texts if "\n" in text for line in set(map(comparable_line, text.split("\n"))))
        least = max(10, 0.2 * len(texts))
        self.template = frozenset(line for line, times in lines.items() if line and times >= least)

    def read(self, text: str, *, training: bool) -> PromptFeatures:
        """Return the features of one prompt. Counts its words if it is a training prompt."""
        lines = [line for line in text.casefold().split("\n") if line.strip()]
        own_lines = [line for line in lines if comparable_line(line) not in self.template] if self.template else lines
        read = [self._line(line) for line in own_lines]
        words = tuple(w for ids, _ in read for w in ids)
        bag = frozenset(words)
        if training:
            self.rows += 1
            self.counts.update(bag)
        numbered = [number for _, numbers in read for number in numbers]
        joined = "\n".join(own_lines)
        if numbered and _OPERATION.search(joined):
            key = " ".join(s.replace(",", "") for s in _SYMBOLS.findall(joined))
        else:
            key = " ".join(sorted(numbered))
        letters = _LETTER.findall(text)
        if len(set(letters)) > 1:
            key = f"{key} {''.join(_RELATED.findall(text))}"
        if len(set(small := _SMALL_LETTER.findall(text))) > 1:
            key = f"{key} {''.join(small)}"
        if negations := len(_NEGATION.findall(joined)):
            key = f"{key} not {negations}"
        if drawing := _drawing(joined):
            key = f"{key} {drawing}"
        apart = tuple(frozenset(self._line(line)[0]) for line in lines) if len(lines) > 1 else ()
        return PromptFeatures(words, bag, key, tuple(numbered), apart)

    def _line(self, line: str) -> tuple[list[int], list[str]]:
        words, ids = _WORD.findall(line), self.ids
        numbers = [n.replace(",", "") for n in _NUMBER.findall(line)]
        if not _NUMBER_WORDS.keys().isdisjoint(words):
            numbers += [_NUMBER_WORDS[word] for word in words if word in _NUMBER_WORDS]
            words = [word for word in words if word not in _NUMBER_WORDS]
        return [ids.setdefault(word, len(ids)) for word in words], numbers

    def weight(self, word: int) -> float:
        """Return the inverse document frequency of a word, which is 0 for a word that all training prompts contain.

        A word that no training prompt contains has a fixed weight. Call this method after reading all training prompts.
        """
        weight = self.weights.get(word)
        if weight is None:
            times = self.counts[word]
            weight = self.weights[word] = max(0.0, math.log((self.rows + 1) / times)) if times else _UNKNOWN_WORD_WEIGHT
        return weight

    def heaviest(self, bag: Iterable[int]) -> list[int]:
        """Sort words by weight, the heaviest first. Words of equal weight have the same order in all prompts."""
        return sorted(bag, key=lambda word: (-self.weight(word), word))
