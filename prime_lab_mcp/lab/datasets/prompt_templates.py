"""Tells two prompts of one generator from a prompt and its paraphrase.

The prompts of a generator differ in the slots of a template, or by statements that recur in other prompts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from prime_lab_mcp.lab.datasets.prompt_features import comparable_line

_CONTEXT = 3
_FILLERS = 3
_CHANCE_WORDS = 2
"""Two differences with at most this many equal words between them count as one difference."""
_EDGE = (-1,) * _CONTEXT
Words = Sequence[int]
DifferenceContext = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """A place in which two prompts differ.

    `before` and `behind` are the training prompt's words around the place; `first` and `last` are the held-out prompt's
    first and last words in it.
    """

    before: DifferenceContext
    behind: DifferenceContext
    first: int
    last: int


def prompt_differences(held_out: Words, train: Words) -> list[PromptDifference]:
    """Return the places where two prompts differ."""
    spans: list[tuple[int, int, int, int]] = []
    for tag, *span in SequenceMatcher(None, held_out, train, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if spans and span[2] - spans[-1][3] <= _CHANCE_WORDS:
            spans[-1] = (spans[-1][0], span[1], spans[-1][2], span[3])
        else:
            spans.append((span[0], span[1], span[2], span[3]))
    test_words, train_words = (*_EDGE, *held_out, *_EDGE), (*_EDGE, *train, *_EDGE)
    return [
        PromptDifference(
            train_words[j1 : j1 + _CONTEXT],
            train_words[j2 + _CONTEXT : j2 + 2 * _CONTEXT],
            test_words[i1 + _CONTEXT],
            test_words[i2 + 2],
        )
        for i1, i2, j1, j2 in spans
    ]


@dataclass(slots=True)
class TemplateSlots:
    """Finds out which registered places are slots of a template, from the words around them in the training split."""

    nexts: dict[DifferenceContext, set[int]] = field(default_factory=dict)
    lasts: dict[DifferenceContext, set[int]] = field(default_factory=dict)

    def register(self, places: Iterable[PromptDifference]) -> None:
        """Register places. Call `learn` once after all places are registered."""
        for place in places:
            self.nexts.setdefault(place.before, set())
            self.lasts.setdefault(place.behind, set())

    def learn(self, rows: Iterable[Words]) -> None:
        """Collect the words next to the registered places in all training prompts."""
        for words in rows:
            padded = (*_EDGE, *words, *_EDGE)
            for n in range(len(words) + 1):
                nexts = self.nexts.get(padded[n : n + _CONTEXT])
                if nexts is not None:
                    nexts.add(padded[n + _CONTEXT])
                lasts = self.lasts.get(padded[n + _CONTEXT : n + 2 * _CONTEXT])
                if lasts is not None:
                    lasts.add(padded[n + _CONTEXT - 1])

    def is_slot(self, place: PromptDifference) -> bool:
        """Return whether a place is a slot of a template."""
        nexts, lasts = self.nexts[place.before], self.lasts[place.behind]
        return min(len(nexts), len(lasts)) >= _FILLERS or (place.first in nexts and place.last in lasts)


_SENTENCE_END = re.compile(r"\n|(?<=[.!?;])\s+")
_OWN_STATEMENTS = 2
"""Fewest statements that each of two selections must have and the other lack. One may be an instruction."""


_PARTS = re.compile(r"[:,]|\b(?:and|or)\b")
"""What stands between the parts of a statement."""


def _statements(text: str) -> dict[str, tuple[str, ...]]:
    """Return the lines and sentences of a prompt, each as its words and numbers, with its parts."""
    statements = {}
    for sentence in _SENTENCE_END.split(text.casefold()):
        if read := comparable_line(sentence):
            statements[read] = _parts(sentence)
    return statements


def _parts(statement: str) -> tuple[str, ...]:
    """Return the parts of a statement, each as its words and numbers."""
    return tuple(part for piece in _PARTS.split(statement) if (part := comparable_line(piece)))


def _told(text: str) -> dict[str, tuple[str, ...]]:
    """Return what the lines of a prompt tell of their subjects: `a: b, c` tells the parts `b` and `c` of `a`."""
    told = {}
    for line in text.casefold().split("\n"):
        subject, _, rest = line.partition(":")
        if (named := comparable_line(subject)) and (parts := _parts(rest)):
            told[named] = parts
    return told


@dataclass(slots=True)
class KnownStatements:
    """Counts the training prompts that contain a statement, to tell another selection of statements from a paraphrase.

    A generator of puzzles draws each prompt's statements from a stock, or their parts, so that a statement or each of
    its parts recurs in other prompts word by word. A reworded statement does not.
    """

    counts: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)

    def learn(self, texts: Iterable[str]) -> None:
        for text in texts:
            statements = _statements(text)
            self.counts.update(statements.keys())
            self.parts.update({part for parts in statements.values() for part in parts})

    def other_selection(self, held_out: str, train: str) -> bool:
        """Return whether two prompts share less than half of their statements, and most others of both recur elsewhere;
        or whether they state different known things about the same two.

        `train` is one of the prompts that were learned.
        """
        if self._contradict(_told(held_out), _told(train)):
            return True
        first, second = _statements(held_out), _statements(train)
        one, other = first.keys(), second.keys()
        if 2 * len(one & other) >= min(len(one), len(other)):
            return False
        return all(
            len(own) >= _OWN_STATEMENTS
            and sum(self._recurs(statement, parts[statement], itself) for statement in own)
            >= max(_OWN_STATEMENTS, len(own) / 2)
            for own, parts, itself in ((one - other, first, 0), (other - one, second, 1))
        )

    def _contradict(self, one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]) -> bool:
        """Whether both prompts tell other things of two or more subjects, all of which other prompts tell as well."""
        differing = [
            subject
            for subject in one.keys() & other.keys()
            if set(one[subject]) != set(other[subject])
            and all(self.parts[part] > 0 for part in one[subject])
            and all(self.parts[part] > 1 for part in other[subject])
        ]
        return len(differing) >= _OWN_STATEMENTS

    def _recurs(self, statement: str, parts: Sequence[str], itself: int) -> bool:
        """Whether a statement, or each of its two or more parts, stands in more than `itself` training prompts."""
        if self.counts[statement] > itself:
            return True
        return len(parts) > 1 and all(self.parts[part] > itself for part in parts)
