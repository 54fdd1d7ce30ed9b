"""Finds the place in prompts or in messages of several tasks where a text of each task stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.worker.child import copying
from prime_lab_mcp.lab.worker.description import Message

_LONGEST_ANCHOR = 24
"""Characters before a text that are compared between tasks."""
_LONGEST_MARK = 4
"""Most characters behind a text that end the piece: an answer may hold the first of them itself, such as a point."""
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the prompt or in the environment's messages, with the fields of copying.py."""

    of: str
    behind: str
    until: str

    @property
    def data(self) -> dict[str, str]:
        """The place in the form of a script."""
        return {"of": self.of, "behind": self.behind, "until": self.until}

    @property
    def name(self) -> str:
        """The place in words."""
        if not self.behind:
            return "the first line that comes back"
        return f"what stands behind {quote(self.behind, 60)} in {'the prompt' if self.of == 'prompt' else 'the output'}"

    def piece(self, messages: Sequence[Message]) -> str:
        """Return the text at the place in a rollout."""
        return copying.behind(_text(self.of, messages), self.behind, self.until)


def find_place(of: str, texts: Sequence[str], targets: Sequence[str]) -> Place | None:
    """Return the place with the longest words before it that holds every target; None if there is none."""
    if len(texts) != len(targets) or len(set(targets)) < 2:
        return None
    numbers = all(_NUMBER.fullmatch(target) for target in targets)
    for match in re.finditer(rf"(?<![\w.]){re.escape(targets[0])}(?!\w)", texts[0], re.IGNORECASE):
        start, end = match.span()
        marks = list(_marks(texts[0], end))
        ends = ["", *marks]
        if numbers:  # Other tasks may have words for an answer, so a piece that needs no number is tried first.
            ends = ["", *(m for m in marks if len(m) > 1 and not any(map(str.isalnum, m))), copying.NUMBER]
        ends = list(dict.fromkeys(ends))
        for length in range(min(_LONGEST_ANCHOR, start), -1, -1):
            anchor = texts[0][start - length : start]
            if (length == 0 and start > 0) or (anchor and not anchor.strip()):
                continue
            for until in ends:
                place = Place(of, anchor, until)
                if all(same_text(copying.behind(t, anchor, until), x) for t, x in zip(texts, targets, strict=True)):
                    return place
    return None


def _marks(text: str, end: int) -> Iterator[str]:
    """Yield the first characters behind a piece, up to the end of the line and then with it."""
    line = text[end:].partition("\n")[0]
    for length in range(1, min(_LONGEST_MARK, len(line)) + 1):
        yield line[:length]
    if 0 < len(line) <= _LONGEST_MARK:
        yield f"{line}\n"


def same_text(piece: str, target: str) -> bool:
    """Whether two texts are equal but for case and the spaces around them."""
    return piece.strip().casefold() == target.strip().casefold()


def _text(of: str, messages: Sequence[Message]) -> str:
    return copying.place_text(of, [{"role": m.get("role"), "content": m.get("content")} for m in messages])
