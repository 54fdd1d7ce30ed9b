"""Whether a prompt holds its own answer, and whether that is a give-away or a text to search."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prime_lab_mcp.lab.datasets.formats import NUMERIC
from prime_lab_mcp.lab.datasets.plain import PlainRow, Tally
from prime_lab_mcp.lab.text import quote

LOOKED_FOR: frozenset[str] = NUMERIC | {"boxed", "latex_math", "short_text", "free_text", "json"}
"""Forms whose gold is looked for; options and label names stand in prompts by design, spans of a text too."""
_NUMERIC_LIKE = NUMERIC | {"boxed", "latex_math"}
_CUE = re.compile(r"(?i)(?:answer|solution|correct|gold|result|label|target)[\"'*\s]{0,4}(?:is|:|=|→|->)[\"'*\s]{0,4}$")
_DIGITS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_PASSAGE = 200
"""Characters from which on a prompt is a text to search."""
_TRIES = 200


@dataclass(slots=True)
class Revealed:
    """Rows whose prompt holds the gold, beside how often it holds the gold of the row before: what chance gives."""

    rows: Tally = field(default_factory=Tally)
    looked: int = 0
    by_chance: int = 0
    cued: int = 0
    """Rows where a word such as `answer:` stands right before it."""
    deciles: list[int] = field(default_factory=lambda: [0] * 10)
    """Where in the prompt the gold stands."""
    long: int = 0
    """Rows among them whose prompt is long enough to be a passage."""
    _last: str = ""

    def see(self, row: PlainRow, gold: str, format: str) -> None:
        """One answered row; `gold` is the essence of its answer."""
        if format not in LOOKED_FOR or row.offered or len(gold) > 2000:
            return
        is_number = format in _NUMERIC_LIKE and _DIGITS.fullmatch(gold) is not None
        prompt = row.prompt.casefold()
        if is_number and "," in prompt:
            prompt = prompt.replace(",", "")
        self.looked += 1
        place = _place(prompt, gold, is_number)
        if self._last and self._last != gold:
            self.by_chance += _place(prompt, self._last, is_number) is not None
        self._last = gold
        if place is None:
            return
        self.rows.add(row.index, row.prompt, gold=quote(gold, 80))
        last = max(place, prompt.rfind(gold if is_number else gold.casefold()))
        self.cued += any(_CUE.search(prompt[max(0, at - 40) : at]) for at in (place, last))
        self.deciles[min(9, 10 * place // max(1, len(prompt) - len(gold) + 1))] += 1
        self.long += len(prompt) >= _PASSAGE

    @property
    def share(self) -> float:
        """Share of rows beyond what chance explains."""
        return max(0.0, self.rows.total - self.by_chance) / max(1, self.looked)

    @property
    def searched(self) -> bool:
        """The prompts are passages and the answers stand anywhere in them, as in extractive question answering."""
        total = self.rows.total
        return self.long >= 0.8 * total and max(self.deciles) < 0.5 * total and self.cued < 0.2 * total


def _place(prompt: str, gold: str, number: bool) -> int | None:
    """Where the gold stands in a case-folded prompt, alone and not inside of a word or number."""
    if not number and len(gold) < 4:
        return None
    gold = gold if number else gold.casefold()
    place = prompt.find(gold)
    for _ in range(_TRIES):
        if place < 0:
            return None
        if _stands_alone(prompt, place, place + len(gold), number):
            return place
        place = prompt.find(gold, place + 1)
    return None


def _stands_alone(prompt: str, start: int, end: int, number: bool) -> bool:
    before, after = prompt[max(0, start - 1) : start], prompt[end : end + 2]
    if before.isalnum() or before == "_" or after[:1].isalnum() or after[:1] == "_":
        # Scripts without spaces have letters on both sides of everything.
        return not number and not (before + after[:1]).isascii()
    return not number or (before != "." and not (after[:1] == "." and after[1:].isdigit()))
