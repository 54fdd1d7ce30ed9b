"""The options of a question, from the columns that datasets keep them in."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from choice_template.columns import value

LETTERS = "ABCDEFGHIJ"
_LABELLED = re.compile(r"\s*[(\[]?\s*([A-Ja-j])\s*[).:\]]\s*(.*)", re.S)
_INLINE = re.compile(r"(?:^|(?<=\s))[(]?([A-J])[).:]\s+(\S.*?)(?=\s+[(]?[A-J][).:]\s|\s*\Z)", re.S)
_IN_STRING = re.compile(r"(?:^|(?<=[,;\n]))\s*[(\[]?([A-Ja-j])\s*[).:\]]\s*")


@dataclass(frozen=True, slots=True)
class Offered:
    """The texts in shown order, and what the dataset calls them where it says so (`A`, or `1`)."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()


def offered(row: Mapping[str, Any], columns: Sequence[str], prompt: str) -> Offered | None:
    """The options of a row; those that stand in the prompt without columns. None when there are none, or too many."""
    if len(columns) > 1:
        found = _of_columns([value(row, column) for column in columns])
    elif columns:
        found = _of_one(value(row, columns[0]))
    else:
        found = _listed(_INLINE.findall(prompt))
    return found if found is not None and 2 <= len(found.texts) <= len(LETTERS) else None


def spread(texts: Sequence[str]) -> list[int]:
    """An order that looks random and follows from the texts alone: by the SHA-256 of all of them and each."""
    whole = "\n".join(sorted(texts))
    digests = [hashlib.sha256(f"{whole}\n{text}".encode("utf-8", "replace")).digest() for text in texts]
    return sorted(range(len(texts)), key=lambda n: digests[n])


def _of_columns(values: Sequence[Any]) -> Offered | None:
    texts = [_text(v) for v in values]
    while texts and not texts[-1]:
        texts.pop()  # a question with fewer options than others
    return Offered(tuple(texts)) if all(texts) else None


def _of_one(found: Any) -> Offered | None:
    if isinstance(found, str):
        found = _of_string(found)
    if isinstance(found, Offered):
        return found
    if isinstance(found, Mapping):
        texts = found.get("text") or found.get("texts")
        if isinstance(texts, list):
            labels = found.get("label") or found.get("labels") or ()
            return _clean(texts, [str(label) for label in labels])
        return _clean(list(found.values()), [str(label) for label in found])  # {"A": ..., "B": ...}
    if isinstance(found, list) and found and all(isinstance(item, Mapping) for item in found):
        texts = [item.get("text") or item.get("value") or item.get("content") for item in found]
        labels = [str(item.get("label") or item.get("key") or "") for item in found]
        return _clean(texts, labels if all(labels) else [])
    return _clean(found, []) if isinstance(found, list) else None


def _of_string(text: str) -> Any:
    """A list written out, or `a ) 38 , b ) 27.5 , c ) none of these`; commas inside of options do not end them."""
    if text.lstrip().startswith(("[", "{")):
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(text.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    starts = list(_IN_STRING.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return _listed([(s[1].upper(), text[s.end() : end].strip(" ,;\n")) for s, end in zip(starts, ends, strict=True)])


def _listed(pairs: Sequence[tuple[str, str]]) -> Offered | None:
    letters = "".join(letter for letter, _ in pairs)
    if len(pairs) < 2 or letters != LETTERS[: len(letters)]:
        return None
    return _clean([text for _, text in pairs], [])


def _clean(values: Sequence[Any], labels: Sequence[str]) -> Offered | None:
    """Without the letters that options may begin with, when each begins with its own."""
    texts = [_text(v) for v in values]
    found = [_LABELLED.match(text) for text in texts]
    if all(m is not None and m[1].upper() == LETTERS[n : n + 1] and m[2] for n, m in enumerate(found)):
        texts = [m[2].strip() for m in found if m is not None]
    if not all(texts) or (labels and len(labels) != len(texts)):
        return None
    return Offered(tuple(texts), tuple(labels))


def _text(found: Any) -> str:
    return "" if found is None or isinstance(found, list | dict) else str(found).strip()
