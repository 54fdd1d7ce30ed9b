"""What a page is made of, before it is HTML or Markdown. Texts are plain: each form escapes them for itself."""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.report import Picture


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a list."""

    lines: tuple[str, ...]


Block = str | Table | Listing | Picture


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    status: str
    summary: str
    sections: tuple[Section, ...]
    banner: str | None = None
    """Said above everything else: that this was a rehearsal."""
