"""Finds out whether the text of a new environment's author asks for another form of the answer than its template does.

The template's own sentence is the constant `FORMAT` of a module. A model reads the author's text, then this sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BOX = re.compile(r"\\boxed\b|\bboxed\{")
_HASH = re.compile(r"####")
_TAG = re.compile(r"<(answer|final|final_answer|result|solution|output)>[^<>\n]{0,60}</\1>", re.IGNORECASE)
_FORMATS = frozenset({"FORMAT", "_ONE", "_ALL"})
"""Names of the constants that hold a template's sentence, or its two alternatives."""


@dataclass(frozen=True, slots=True)
class OtherForm:
    """A form that the author's text asks for and the template does not. `text` is how the text asks."""

    text: str
    is_box: bool


def other_form(folder: Path, task: str | None) -> OtherForm | None:
    """Return the first form in `task` that no sentence of the template in `folder` asks for; None if there is none."""
    own = [text for file in sorted(folder.rglob("*.py")) for text in _sentences(file.read_text(encoding="utf-8"))]
    if task is None or not own:
        return None
    for form in (_BOX, _HASH, _TAG):
        asked = form.search(task)
        if asked is not None and not any(_same(asked, found) for text in own for found in form.finditer(text)):
            return OtherForm(asked[0], form is _BOX)
    return None


def _same(asked: re.Match[str], found: re.Match[str]) -> bool:
    return [g.casefold() for g in asked.groups()] == [g.casefold() for g in found.groups()]


def _sentences(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) in _FORMATS for target in node.targets):
            parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            yield "\n".join(part for part in parts if isinstance(part, str))
