"""Reads the list of a reply: its last JSON value, else its last run of alike lines, else its last line of items.

Items stand between commas or are the steps of a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

FEWEST_ENTRIES = 3
"""Smallest number of entries of lines and items."""
_FEWEST_VALUES = 2
"""Smallest number of entries of a JSON value."""
CODE_FENCES = frozenset(
    {"python", "py", "python3", "sql", "bash", "sh", "js", "javascript", "ts", "typescript", "regex", "c", "cpp",
     "rust", "go", "java", "ruby", "html", "xml", "diff"}
)  # fmt: skip
_FENCE = re.compile(r"```([\w+#-]*)[ \t]*\n(.*?)```", re.S)
MARK = re.compile(r"^\s*(?:[-*+•]|\(?\d+[.):]\)?)\s+")
"""What stands before an entry of a list: a bullet or a number."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:[.,:/-]\d+)*(?![\w])")
PAIR = re.compile(r"^(?P<key>[^,:|=\t]{1,60}?\s*(?:[,:|=\t]|->)\s*)(?P<value>\S[^,:|=\t]{0,80})$")
_END = r"\s*(?:</[\w-]+>|[.\])}<])?\s*$"
ITEMS = re.compile(r"(?:^|(?<=[:\]>\[{]))\s*(?P<items>[^\n,:<>\[\]{}()]{1,40}(?:, [^\n,:<>\[\]{}()]{1,40}){2,})" + _END)
_STEP = r"[\w ]{1,30}?"
_ARROW = r" ?(?:->|\N{RIGHTWARDS ARROW}|=>|>) ?"
_CHAIN = re.compile(rf"(?:^|(?<=[:\]>{{]))\s*(?P<items>{_STEP}(?P<mark>{_ARROW}){_STEP}(?:(?P=mark){_STEP})+){_END}")
"""Items of a path, such as `cold -> cord -> ward`."""


@dataclass(frozen=True, slots=True)
class ReplyList:
    """The list of a reply: `text` is `before`, the entries and `after`. `shown` are the entries as texts."""

    before: str
    after: str
    entries: tuple[Any, ...]
    kind: str
    """`lines`, `items`, `list` or `object`."""
    between: str = ", "
    """What stands between items."""
    around: Any = None
    """For JSON: the object that holds the list under `key`."""
    key: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        if self.kind == "object":
            return tuple(str(key) for key, _ in self.entries)
        if self.kind == "list":
            return tuple(entry if isinstance(entry, str) else json.dumps(entry) for entry in self.entries)
        return tuple(MARK.sub("", entry).strip() for entry in self.entries)

    def text(self, entries: Sequence[Any]) -> str:
        """Return the reply with other entries in the place of its own."""
        if self.kind in ("lines", "items"):
            return self.before + ("\n" if self.kind == "lines" else self.between).join(entries) + self.after
        value: Any = dict(entries) if self.kind == "object" else list(entries)
        if self.key:
            value = {**self.around, self.key: value}
        return self.before + json.dumps(value, ensure_ascii=False) + self.after


def listed_in(text: str) -> ReplyList | None:
    """Return the list of a reply; None if it has none, or is a program."""
    fences = list(_FENCE.finditer(text))
    if fences:
        last = fences[-1]
        if last[1].lower() in CODE_FENCES:
            return None
        start, end = last.span(2)
    else:
        start, end = 0, len(text)
    inner = text[start:end]
    found = _json_list(inner) or (None if _has_json(inner) else _lines(inner) or _items(inner))
    if found is None:
        return None
    return replace(found, before=text[:start] + found.before, after=found.after + text[end:])


def json_values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, value) for the JSON objects and lists of a text that are not inside of another one."""
    decoder, at = json.JSONDecoder(), 0
    while match := re.compile(r"[\[{]").search(text, at):
        try:
            value, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        yield match.start(), at, value


def _has_json(text: str) -> bool:
    return any(isinstance(value, dict) for _, _, value in json_values(text))


def _json_list(text: str) -> ReplyList | None:
    """Return the last JSON value of a text as a list: of its own entries, or of its only list or object."""
    values = list(json_values(text))
    if not values:
        return None
    start, end, value = values[-1]
    before, after = text[:start], text[end:]
    if isinstance(value, list):
        return ReplyList(before, after, tuple(value), "list") if _alike(value) else None
    if _alike(list(value.values())):
        return ReplyList(before, after, tuple(value.items()), "object")
    inner = [(key, v) for key, v in value.items() if isinstance(v, list | dict) and v]
    if len(inner) != 1:
        return None
    key, held = inner[0]
    if isinstance(held, list):
        return ReplyList(before, after, tuple(held), "list", around=value, key=key) if _alike(held) else None
    if _alike(list(held.values())):
        return ReplyList(before, after, tuple(held.items()), "object", around=value, key=key)
    return None


def _alike(values: Sequence[Any]) -> bool:
    """Whether there are several values, all of one JSON type."""
    kinds = {float if isinstance(v, int | float) and not isinstance(v, bool) else type(v) for v in values}
    return len(values) >= _FEWEST_VALUES and len(kinds) == 1 and not kinds & {bool, type(None)}


def _shape(line: str) -> tuple[str, ...]:
    """Return what lines of one list have in common: their mark, and their marks between fields."""
    mark = MARK.match(line)
    kind = "" if mark is None else "1" if mark[0].strip()[:-1].strip("(").isdigit() else mark[0].strip()
    return kind, "".join(re.findall(r"[,;|=\t]|: | - |->", MARK.sub("", line)))


def _lines(text: str) -> ReplyList | None:
    """Return the last run of at least three alike lines, each with a mark, a separator, or few words."""
    lines = text.split("\n")
    at, best = 0, None
    for shape, group in groupby(lines, key=lambda line: _shape(line) if _is_entry(line) else None):
        size = len(list(group))
        run = lines[at : at + size]
        head = _head(run)
        if shape is not None and size - head >= FEWEST_ENTRIES and all(len(line.split()) <= 8 for line in run):
            best = (at + head, size - head)
        at += size
    if best is None:
        return None
    at, size = best
    before = "".join(f"{line}\n" for line in lines[:at])
    rest = lines[at + size :]
    return ReplyList(before, "\n" + "\n".join(rest) if rest else "", tuple(lines[at : at + size]), "lines")


def _is_entry(line: str) -> bool:
    """Whether a line may be an entry of a list: neither empty nor a tag or the rule of a table."""
    return bool(line.strip()) and "<" not in line and not re.fullmatch(r"[\s|:=+-]*", line)


def _head(run: Sequence[str]) -> int:
    """Return 1 if a run of lines begins with the names of columns, else 0."""
    first, *others = run
    return int(bool(others) and not re.search(r"\d", first) and all(re.search(r"\d", line) for line in others))


def _items(text: str) -> ReplyList | None:
    """Return the last line of at least three short items with commas."""
    for line in reversed(text.split("\n")):
        chain = _CHAIN.search(line)
        if chain is not None:
            at = text.rindex(line)
            start, end = at + chain.start("items"), at + chain.end("items")
            steps = tuple(chain["items"].split(chain["mark"]))
            return ReplyList(text[:start], text[end:], steps, "items", chain["mark"])
        match = ITEMS.search(line)
        if match is not None and all(len(item.split()) <= 4 for item in match["items"].split(",")):
            at = text.rindex(line)
            start, end = at + match.start("items"), at + match.end("items")
            items = [item.strip() for item in match["items"].split(",")]
            return ReplyList(text[:start], text[end:], tuple(items), "items")
    return None
