"""How a reply names one of the options: by its letter, by its text, or by both when they agree."""

from __future__ import annotations

import re
from collections.abc import Sequence

from science_choice.options import LETTERS

FORMAT = "Then give the letter of the right option, and nothing else, in answer tags: <answer>LETTER</answer>"
_TAG = re.compile(r"<answer>([^<]*)</answer>", re.I)
_OPEN, _CLOSE = re.compile(r"<answer>", re.I), re.compile(r"</answer>", re.I)
_THOUGHT_END, _THOUGHT_START = re.compile(r"</think(?:ing)?>", re.I), re.compile(r"<think(?:ing)?>", re.I)
_LETTER = re.compile(r"\(?([A-D])[).:]?|\(?([A-D])[).:]\)?\s+(\S.*)", re.I | re.S)


def given(reply: str, options: Sequence[str]) -> str | None:
    """The letter of the option that a reply chooses; None when it chooses none, or several."""
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    found = _TAG.findall(said)
    if not len(found) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    letters = {_letter(content.strip(), options) for content in found if content.strip()}
    return letters.pop() if len(letters) == 1 else None


def _letter(content: str, options: Sequence[str]) -> str | None:
    by_text = [LETTERS[n] for n, option in enumerate(options) if _plain(option) == _plain(content)]
    if by_text:
        return by_text[0] if len(by_text) == 1 else None
    found = _LETTER.fullmatch(content)
    if found is None:
        return None
    letter = (found[1] or found[2]).upper()
    if letter not in LETTERS[: len(options)]:
        return None
    stated = found[3]
    return letter if stated is None or _plain(stated) == _plain(options[LETTERS.index(letter)]) else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
