"""The rules: which reply is a guess, the marks it gets, what is said then, and what finding the word is worth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LETTERS = 5
MAX_GUESSES = 6
GUESS_COST = 0.1
"""What each guess before the right one takes off its worth."""
FORMAT = "Think, then make one guess in guess tags: <guess>WORD</guess>"
RULES = (
    f"Find a common English word of {LETTERS} letters. You have {MAX_GUESSES} guesses. After each one every letter "
    "gets a mark: = for a letter in its right place, + for a letter that stands in another place, - for a letter that "
    "the word does not have (or not once more). The fewer guesses, the better."
)
_TAG = re.compile(r"<guess>([^<]*)</guess>", re.I)
_OPEN, _CLOSE = re.compile(r"<guess>", re.I), re.compile(r"</guess>", re.I)
_THOUGHT_END, _THOUGHT_START = re.compile(r"</think(?:ing)?>", re.I), re.compile(r"<think(?:ing)?>", re.I)


def guess_of(reply: str) -> str | None:
    """The guessed word in lower case; None unless a reply tags one word of that length outside of its thoughts."""
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    tagged = _TAG.findall(said)
    if not len(tagged) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    words = {content.strip().strip(".!*\"'`").casefold() for content in tagged}
    word = words.pop() if len(words) == 1 else ""
    return word if len(word) == LETTERS and word.isascii() and word.isalpha() else None


def marks(guess: str, word: str) -> str:
    """A mark per letter. A letter guessed twice is marked twice only if the word has it twice."""
    left = Counter(hidden for said, hidden in zip(guess, word, strict=True) if said != hidden)
    found = []
    for said, hidden in zip(guess, word, strict=True):
        if said == hidden:
            found.append("=")
        elif left[said]:
            left[said] -= 1
            found.append("+")
        else:
            found.append("-")
    return "".join(found)


def shown(guess: str, word: str) -> str:
    """A guess with its marks, letter by letter: `C- R+ A= N- E-`."""
    return " ".join(letter.upper() + mark for letter, mark in zip(guess, marks(guess, word), strict=True))


def response(reply: str, word: str, left: int) -> str | None:
    """What the environment says after a guess, with `left` more to come; None when the game is over."""
    guess = guess_of(reply)
    if guess == word or left < 1:
        return None
    said = f"That is no guess: tag one word of {LETTERS} letters." if guess is None else shown(guess, word)
    return f"{said}\n{left} {'guess' if left == 1 else 'guesses'} left."


def worth(replies: Sequence[str], word: str) -> float:
    """1 for the right word at once, less for each reply before it, 0 when it is not found in MAX_GUESSES replies."""
    right = (turn for turn, reply in enumerate(replies[:MAX_GUESSES]) if guess_of(reply) == word)
    turn = next(right, None)
    return 0.0 if turn is None else 1.0 - GUESS_COST * turn
