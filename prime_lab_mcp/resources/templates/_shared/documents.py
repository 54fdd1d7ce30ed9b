"""The documents that the tools look things up in: JSON lines inside of this package, each with a title and a text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "data" / "documents.jsonl"
_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    ("a", "an", "and", "at", "for", "from", "how", "in", "is", "of", "on", "the", "to", "what", "which")
)


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    text: str


def load() -> list[Document]:
    """All documents, in file order."""
    with FILE.open(encoding="utf-8") as lines:
        return [Document(row["title"], row["text"]) for row in map(json.loads, lines)]


def search(documents: Sequence[Document], query: str, limit: int = 5) -> list[Document]:
    """The documents that share the most words with the query, those in the title counted three times."""
    wanted = _words(query)
    scored = [(3 * len(wanted & _words(d.title)) + len(wanted & _words(d.text)), d) for d in documents]
    ranked = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return [document for _, document in ranked[:limit]]


def find(documents: Sequence[Document], title: str) -> Document | None:
    """The document with this title, case and white space aside."""
    wanted = " ".join(title.casefold().split())
    return next((d for d in documents if d.title.casefold() == wanted), None)


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if word not in _COMMON}
