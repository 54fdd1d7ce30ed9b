"""Short answers compared as texts, in the manner of SQuAD: case, punctuation, leading articles and accents aside.

Two things differ from SQuAD's script, where that would take a wrong answer for the right one: signs and separators that
belong to a number stay (`-5`, `3.5`, `1/2`, `12:30`), and an article that ends the answer stays (`vitamin A`).
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 300
"""Characters of an answer; what is longer is no short text."""
_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u02bc`\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "&": " and ",
        "\u00a0": " ",
    }
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_OF_A_NUMBER = re.compile(r"(?<=\d)[.,:/-](?=\d)|(?<![\w.])[-.](?=\d)")
_FIRST_ARTICLE = re.compile(r"^(?:a|an|the) (?=\S)")
_INNER_ARTICLE = re.compile(r" the (?=\S)")


def normal_forms(text: str) -> frozenset[str]:
    """The normal forms of an answer: with its punctuation left out, and with spaces in its place.

    Two answers are the same when they share one, so `e-mail` is `email` and `twenty-one` is `twenty one`. Empty for a
    text that is blank or longer than `LONGEST`.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text[: 4 * LONGEST])).translate(_SAME).casefold()
    text = " ".join(text.split())
    if not text or len(text) > LONGEST:
        return frozenset()
    text = _without_accents(_THOUSANDS.sub("", text))
    kept = {match.start() for match in _OF_A_NUMBER.finditer(text)}
    forms = {_joined(text, kept, between) for between in ("", " ")} - {""}
    return frozenset(forms or {text})


def _joined(text: str, kept: set[int], between: str) -> str:
    marks = "".join(
        between if at not in kept and unicodedata.category(sign)[0] == "P" and sign not in "#%" else sign
        for at, sign in enumerate(text)
    )
    return _INNER_ARTICLE.sub(" ", _FIRST_ARTICLE.sub("", " ".join(marks.split())))


def _without_accents(text: str) -> str:
    """Latin letters without their accents; marks of other scripts change the word, and stay."""
    plain = re.sub("(?<=[a-z])[\u0300-\u036f]+", "", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", plain)


def same(left: str, right: str) -> bool:
    """The same answer, spelling aside."""
    return not normal_forms(left).isdisjoint(normal_forms(right))
