"""What a task shows at its start: guesses that were made before, chosen by a seed, so that no two tasks look alike."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from guess_word.game import shown
from guess_word.words import all_words

_TRIES = 200


def openings(words: Sequence[str], seed: int, guesses: int = 2) -> Iterator[tuple[str, str]]:
    """(word, opening) for every word, in an order and with openings that the seed decides.

    An opening that fits another word as well as an earlier task's is drawn again; a word without one of its own is
    left out.
    """
    chance = random.Random(seed)
    order = sorted(words)
    chance.shuffle(order)
    known, taken = all_words(), set()
    for word in order:
        others = [other for other in known if other != word]
        for _ in range(_TRIES):
            lines = [shown(guess, word) for guess in chance.sample(others, guesses)]
            opening = "\n".join(lines)
            if opening not in taken and any("=" in line or "+" in line for line in lines):
                taken.add(opening)
                yield word, opening
                break
