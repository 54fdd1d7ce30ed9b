"""Whether two prompts differ only where their template has a slot: then they are siblings of one generator, no leak.

A place is a slot when, in the training split, what stands before it goes on in at least three ways and what stands
behind it is led up to in at least three ways; or when the held-out prompt's own way on and way back stand there too.
Another wording leaves other places: it changes what all rows share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

_CONTEXT = 3
_FILLERS = 3
_CHANCE = 2
"""Words in common between two differences that say nothing."""
_EDGE = (-1,) * _CONTEXT
Words = Sequence[int]
Context = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One difference: the training prompt's words before and behind it, the held-out prompt's first and last in it."""

    before: Context
    behind: Context
    first: int
    last: int


def differences(held: Words, train: Words) -> list[Place]:
    """Where two prompts differ."""
    spans: list[tuple[int, int, int, int]] = []
    for tag, *span in SequenceMatcher(None, held, train, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if spans and span[2] - spans[-1][3] <= _CHANCE:
            spans[-1] = (spans[-1][0], span[1], spans[-1][2], span[3])
        else:
            spans.append((span[0], span[1], span[2], span[3]))
    ours, theirs = (*_EDGE, *held, *_EDGE), (*_EDGE, *train, *_EDGE)
    return [
        Place(theirs[j1 : j1 + _CONTEXT], theirs[j2 + _CONTEXT : j2 + 2 * _CONTEXT], ours[i1 + _CONTEXT], ours[i2 + 2])
        for i1, i2, j1, j2 in spans
    ]


@dataclass(slots=True)
class Slots:
    """What the training split has before and behind the places that were asked about."""

    nexts: dict[Context, set[int]] = field(default_factory=dict)
    lasts: dict[Context, set[int]] = field(default_factory=dict)

    def ask(self, places: Iterable[Place]) -> None:
        """Name the places; then `learn` once."""
        for place in places:
            self.nexts.setdefault(place.before, set())
            self.lasts.setdefault(place.behind, set())

    def learn(self, rows: Iterable[Words]) -> None:
        """One pass over the training prompts."""
        for words in rows:
            padded = (*_EDGE, *words, *_EDGE)
            for n in range(len(words) + 1):
                nexts = self.nexts.get(padded[n : n + _CONTEXT])
                if nexts is not None:
                    nexts.add(padded[n + _CONTEXT])
                lasts = self.lasts.get(padded[n + _CONTEXT : n + 2 * _CONTEXT])
                if lasts is not None:
                    lasts.add(padded[n + _CONTEXT - 1])

    def has(self, place: Place) -> bool:
        """Whether a place is a slot."""
        nexts, lasts = self.nexts[place.before], self.lasts[place.behind]
        return min(len(nexts), len(lasts)) >= _FILLERS or (place.first in nexts and place.last in lasts)
