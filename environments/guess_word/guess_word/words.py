"""The words of the game and which of them are held out."""

from __future__ import annotations

import hashlib
from pathlib import Path

FILE = Path(__file__).parent / "data" / "words.txt"
HELD_OUT_OF = 6
"""One word in so many is held out, chosen by its letters, so that adding words moves none between the splits."""


def all_words() -> list[str]:
    """Every word, in file order: five lower-case letters each."""
    return FILE.read_text(encoding="utf-8").split()


def words_of(split: str) -> list[str]:
    """The words to be found in a split, `train` or `eval`; no word is in both."""
    return [word for word in all_words() if _is_held_out(word) == (split == "eval")]


def _is_held_out(word: str) -> bool:
    return hashlib.sha256(word.encode()).digest()[0] % HELD_OUT_OF == 0
