"""Names the parts of a reply that every paid text has and that replies without reward lack.

Paid texts are right replies that `test_reward` scored: golds as it wrote them, and supplied cases. A part is a mark
that a reward may read, such as a tag or a box, or a trait of the last line, such as the word before a number or the
unit after one. That replies lack a part does not prove that the reward reads the part, so the reports only compare.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from prime_lab_mcp.lab.base.text import quote

PAID_REPLIES = "paid_replies"
"""The key of the paid texts in the data of a `test_reward`."""
Kind = Literal["tag", "box", "hashes", "fence", "key", "lead", "number", "unit"]
_MARKS: frozenset[Kind] = frozenset({"tag", "box", "hashes", "fence", "key"})
"""Parts that one paid text is enough to know of. A trait of the last line is known from two."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{0,40})>")
_THOUGHTS = frozenset({"think"})
"""Tags that servers cut out of a reply."""
_HASHES = re.compile(r"^[ \t]*####", re.M)
_FENCED = re.compile(r"```\w{0,40}\n?(.*?)```", re.S)
_LEAD = re.compile(r"^[\s*_#>-]*([A-Za-z][A-Za-z ]{0,40}?)[\s*_]*[:=]")
_NUMBER = re.compile(r"\d")
_UNIT = re.compile(r"\d[\s*_]*([A-Za-z\u00b5\u00b0%$\u20ac][A-Za-z\u00b5\u00b0%$\u20ac/]{0,14})[\s*_.]*$")
_LONGEST = 20_000
"""Characters of a text that are read, from its end."""
_SHOWN = 80
_MOST_NAMED = 3
MOSTLY = 0.9
"""Share of the replies that must lack a part before a summary says so (our choice)."""


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """One part of a reply. `text` is the name of a tag or a key, or the words before a colon; else empty."""

    kind: Kind
    text: str = ""

    def describe(self) -> str:
        """The part in words, as the object of "lack"."""
        named = quote(self.text, 40)[1:-1]
        return {
            "tag": f"<{named}>\N{HORIZONTAL ELLIPSIS}</{named}>",
            "box": "\\boxed{}",
            "hashes": "a line that begins with ####",
            "fence": "a code fence",
            "key": f'a JSON object with "{named}"',
            "lead": f'"{named}:" at the beginning of the last line',
            "number": "a number in the last line",
            "unit": "a unit or word after the number that ends the last line",
        }[self.kind]


def parts_of(text: str) -> frozenset[ReplyPart]:
    """Return the parts of one text."""
    text = text[-_LONGEST:]
    tags = set(_TAG.findall(text))
    parts = {ReplyPart("tag", name) for end, name in tags if end and ("", name) in tags and name not in _THOUGHTS}
    parts |= {ReplyPart("box")} if "\\boxed{" in text else set()
    parts |= {ReplyPart("hashes")} if _HASHES.search(text) else set()
    fenced = _FENCED.findall(text)
    parts |= {ReplyPart("fence")} if fenced else set()
    parts |= {ReplyPart("key", key) for key in _json_keys((fenced[-1] if fenced else text).strip())}
    last = _last_line(text)
    lead = _LEAD.match(last)
    parts |= {ReplyPart("lead", " ".join(lead[1].split()).capitalize())} if lead else set()
    parts |= {ReplyPart("number")} if _NUMBER.search(last) else set()
    parts |= {ReplyPart("unit")} if _UNIT.search(last) else set()
    return frozenset(parts)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _json_keys(text: str) -> list[str]:
    if not text.startswith("{"):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(key) for key in value] if isinstance(value, dict) else []


@dataclass(frozen=True, slots=True)
class PaidParts:
    """The parts that all paid texts have. `example` is the end of one of these texts."""

    parts: frozenset[ReplyPart] = frozenset()
    example: str = ""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Return what the texts share: marks, and traits of the last line if there are two different texts."""
        if not texts:
            return cls()
        parts = frozenset.intersection(*(parts_of(text) for text in texts))
        if len(set(texts)) < 2:
            parts = frozenset(part for part in parts if part.kind in _MARKS)
        return cls(parts, texts[0].strip()[-_SHOWN:])

    @classmethod
    def recorded(cls, data: Mapping[str, Any]) -> Self:
        """Return the parts of the paid texts in the data of a `test_reward`; none of an older version's data."""
        rows = data.get(PAID_REPLIES)
        texts = [row.get("reply") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        return cls.of([text for text in texts if isinstance(text, str) and text.strip()])

    def also_of(self, replies: Iterable[str]) -> Self:
        """Return the parts that these replies have as well, which were paid too: what they lack is not needed."""
        parts = self.parts
        for reply in replies:
            if not parts:
                break
            parts &= parts_of(reply)
        return type(self)(parts, self.example)

    def lacking(self, reply: str) -> frozenset[ReplyPart]:
        """Return the parts that a reply lacks."""
        return self.parts - parts_of(reply) if self.parts else frozenset()


@dataclass(slots=True)
class LackedParts:
    """How many of some unpaid replies lack each part of the paid texts."""

    paid: PaidParts
    replies: int = 0
    counts: Counter[ReplyPart] = field(default_factory=Counter)

    def add(self, reply: str) -> frozenset[ReplyPart]:
        """Count a reply and return the parts that it lacks."""
        lacking = self.paid.lacking(reply)
        self.replies += 1
        self.counts.update(lacking)
        return lacking

    def summary(self) -> str:
        """Return what nearly all of the replies lack, with the end of a paid text; empty if there is no such part."""
        return lack_of((p for p, number in self.counts.items() if number >= MOSTLY * self.replies), self.paid)


def lack_of(parts: Iterable[ReplyPart], paid: PaidParts) -> str:
    """Return in words what replies lack, with the end of a paid text; empty for no part."""
    listed = sorted(parts, key=lambda part: (part.kind, part.text))
    if not listed:
        return ""
    named = ", ".join(part.describe() for part in listed[:_MOST_NAMED])
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{named}{more} (a paid text ends with {quote(paid.example, _SHOWN + 20)})"
