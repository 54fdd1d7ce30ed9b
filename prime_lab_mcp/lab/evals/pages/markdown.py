"""A page as Markdown: what a model reads. The picture is named, not held; every text is escaped."""

from __future__ import annotations

import re

from prime_lab_mcp.lab.evals.pages.blocks import Block, Listing, Page, Section, Table
from prime_lab_mcp.lab.report import Picture

_ACTIVE = re.compile(r"([\\`*\[\]<|]|(?<!\w)_|_(?!\w))")
"""What Markdown or HTML inside it would act on anywhere in a line."""
_LEADING = re.compile(r"^([#>+-])")


def markdown(page: Page) -> str:
    """The whole page."""
    parts = [f"# {_plain(page.title)}", f"**{page.status}** {_plain(page.summary)}"]
    if page.banner:
        parts.insert(0, f"> **{_plain(page.banner)}**")
    return "\n\n".join([*parts, *(_section(section) for section in page.sections)]) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {_plain(section.title)}", *(_block(block) for block in section.blocks)])


def _block(block: Block) -> str:
    if isinstance(block, Table):
        lines = [block.head, tuple("---" for _ in block.head)]
        head = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([*head, *("| " + " | ".join(map(_cell, row)) + " |" for row in block.rows)])
    if isinstance(block, Listing):
        return "\n".join(f"- {_plain(line)}" for line in block.lines)
    if isinstance(block, Picture):
        return f"{_plain(block.title)}: `{block.path}`"
    return _plain(block)


def _plain(text: str) -> str:
    """One line in which nothing is markup."""
    return _LEADING.sub(r"\\\1", _cell(text))


def _cell(text: str) -> str:
    """The same for a place that is not the start of a line."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))
