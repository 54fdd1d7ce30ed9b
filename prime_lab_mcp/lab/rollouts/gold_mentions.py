"""Decides whether a reply states the reference answer.

The decision is careful, because it ranks the rollouts that a person reads first. A reference answer that is no short
text gives UNKNOWN.

Numbers are compared by value and with word boundaries, text without case, punctuation and spacing. A reference answer
of one or two characters, such as `B` or `1`, counts only in the last answer tag, box or line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from prime_lab_mcp.lab.datasets import golds

_LONGEST = 120
"""Characters. A longer reference answer is prose, a program or a proof, which no reply repeats word for word."""
_SHORT = 2
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_OVER = re.compile(r"/\s*\d")
_FRACTION = re.compile(r"(-?)\s*(?:\\[dt]?frac\s*\{?(\d{1,9})\}?\s*\{?(\d{1,9})\}?|(\d{1,9})\s*/\s*(\d{1,9}))")
_TAGS = re.compile(r"<(answer|final_answer|final)>(.*?)</\1>", re.S | re.I)
_LATEX = re.compile(r"\\(?:left|right|displaystyle|[,!;: ])|[${}\s]|\\(?=[%$])")
_WORDS = re.compile(r"\W+")


class GoldMention(IntEnum):
    """Where a reply states the reference answer. UNKNOWN: the reference answer cannot be searched for."""

    UNKNOWN = 0
    ABSENT = 1
    MENTIONED = 2
    ANSWERED = 3
    """The reply states the reference answer where its final answer stands."""


@dataclass(frozen=True, slots=True)
class SearchedGold:
    """A reference answer in every form that the search compares."""

    text: str
    number: Decimal | None
    words: str
    latex: str

    @property
    def short(self) -> bool:
        """Whether the reference answer is so short that many texts contain it by chance."""
        return len(self.text) <= _SHORT


def searched_gold(stated: str | None) -> SearchedGold | None:
    """Return the final answer of a stored reference answer, prepared for the search; None if it is no short text."""
    if stated is None or golds.is_empty(stated):
        return None
    final = golds.after_hash(stated) or golds.boxed_content(stated) or stated
    text = final.strip()
    if not text or len(text) > _LONGEST or "\n" in text or text[0] in "[{":
        return None
    words = _words(text)
    return SearchedGold(text, _value(text), words, _latex(text)) if words or _latex(text) else None


def gold_mention(gold: SearchedGold | None, reply: str) -> GoldMention:
    """Return where `reply` states the reference answer."""
    if gold is None:
        return GoldMention.UNKNOWN
    if _holds(gold, answer_place(reply)):
        return GoldMention.ANSWERED
    return GoldMention.MENTIONED if _holds(gold, reply) else GoldMention.ABSENT


def is_distinctive(gold: SearchedGold | None) -> bool:
    """Whether a mention anywhere in a reply is evidence: one or two characters occur in many texts by chance."""
    return gold is not None and not gold.short


def answer_place(reply: str) -> str:
    """Return the content of the last answer tag, box, text after #### or line that is not blank."""
    tags = _TAGS.findall(reply)
    if tags:
        return str(tags[-1][1]).strip()
    box = golds.boxed_content(reply)
    if box:
        return box
    return golds.after_hash(reply) or next((x.strip() for x in reversed(reply.splitlines()) if x.strip()), "")


def _holds(gold: SearchedGold, text: str) -> bool:
    if gold.number is not None:
        return _states(gold.number, text)
    if gold.words and f" {gold.words} " in f" {_words(text)} ":
        return True
    # Formulas have few words, so they are compared without spacing and without layout commands.
    return len(gold.latex) > _SHORT and bool(re.search(r"[\\^_=+*/]", gold.text)) and gold.latex in _latex(text)


def _value(text: str) -> Decimal | None:
    fraction = _FRACTION.fullmatch(text.strip("$ "))
    return _quotient(fraction) if fraction else golds.number_in(text)


def _states(number: Decimal, text: str) -> bool:
    """Whether a text states a number: `1200` in "costs $1,200.00" and not in "12000", "a1200" or "-1200"."""
    # A whole number is rarely written as a fraction; fractions of that value are intermediate steps.
    broken = number != int(number) and ("frac" in text or _OVER.search(text) is not None)
    if broken and any(_quotient(found) == number for found in _FRACTION.finditer(text)):
        return True
    if "," in text:
        text = _THOUSANDS.sub("", text)
    digits = golds.canonical_number(abs(number))
    key = digits.removeprefix("0") if "." in digits else digits
    place = text.find(key)
    while place >= 0:
        if _ends_after(text, place + len(key), "." in key) and _begins_at(text, place, negative=number < 0):
            return True
        place = text.find(key, place + 1)
    return False


def _begins_at(text: str, place: int, *, negative: bool) -> bool:
    while place and text[place - 1] == "0":
        place -= 1
    before = text[place - 1] if place else " "
    if before in "-\u2212" and not (place > 1 and text[place - 2].isalnum()):
        return negative
    return not negative and not (before.isalnum() or before in "._")


def _ends_after(text: str, place: int, fraction: bool) -> bool:
    if not fraction and text[place : place + 1] == "." and text[place + 1 : place + 2].isdigit():
        fraction, place = True, place + 1
    while fraction and text[place : place + 1] == "0":
        place += 1
    return not text[place : place + 1].isdigit()


def _quotient(match: re.Match[str]) -> Decimal | None:
    sign, over, under, plain_over, plain_under = match.groups()
    below = Decimal(under or plain_under)
    value = Decimal(over or plain_over) / below if below else None
    return -value if value is not None and sign else value


def _words(text: str) -> str:
    return _WORDS.sub(" ", golds.normalised_text(text)).strip()


def _latex(text: str) -> str:
    return _LATEX.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").casefold()
