"""The parts of a report page, and their rendering as HTML and as Markdown.

Both renderings escape every text. The content security policy of the HTML page also forbids scripts and requests, so
that text from a model has no effect in a browser.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from html import escape

from prime_lab_mcp.lab.base.report import Link, Picture
from prime_lab_mcp.lab.base.text import escape_lines


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of texts: its column heads and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PageList:
    """A bulleted list with one item for each line."""

    lines: tuple[str, ...]


Block = str | PageTable | PageList | Picture


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page: its title and its contents."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report page before it is rendered."""

    title: str
    status: str
    summary: str
    sections: tuple[PageSection, ...]
    banner: str | None = None
    """A line at the top of the page, which says that the evaluation is a rehearsal."""


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #fff; --faint: #6e7781; --line: #d0d7de; --head: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --faint: #8d96a0; --line: #30363d; --head: #161b22; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 64rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.5rem; text-align: left; vertical-align: top; }
th { background: var(--head); }
img { max-width: 100%; height: auto; border-radius: 4px; }
.status { display: inline-block; padding: 0 0.6rem; border-radius: 1rem; color: #fff; background: #6e7781; }
.passed { background: #1a7f37; } .failed { background: #c02626; } .inconclusive { background: #9a6700; }
.banner { padding: 0.5rem 1rem; border: 2px solid #c02626; border-radius: 4px; font-weight: 600; }
"""


def page_html(page: ReportPage) -> str:
    """Return the page as one HTML file."""
    banner = f'<p class="banner">{escape(page.banner)}</p>' if page.banner else ""
    kind = page.status if page.status in ("passed", "failed", "inconclusive") else ""
    return escape_lines(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(page.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{banner}\n"
        f"<h1>{escape(page.title)}</h1>\n"
        f'<p><span class="status {kind}">{escape(page.status)}</span> {escape(page.summary)}</p>\n'
        + "\n".join(_section(section) for section in page.sections)
        + "\n</body>\n</html>\n"
    )


def _section(section: PageSection) -> str:
    return f"<h2>{escape(section.title)}</h2>\n" + "\n".join(_block(block) for block in section.blocks)


def _block(block: Block) -> str:
    if isinstance(block, PageTable):
        return _table(block)
    if isinstance(block, PageList):
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in block.lines) + "</ul>"
    if isinstance(block, Picture):
        return _picture(block)
    return f"<p>{escape(block)}</p>"


def _table(table: PageTable) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in table.rows)
    return f"<table>\n<tr>{head}</tr>\n{rows}</table>"


def _picture(picture: Picture) -> str:
    try:
        data = base64.b64encode(picture.path.read_bytes()).decode("ascii")
    except OSError:
        return ""
    return f'<img alt="{escape(picture.title)}" src="data:{escape(picture.media_type)};base64,{data}">'


_ACTIVE = re.compile(r"([\\`*\[\]<|]|(?<!\w)_|_(?!\w))")
"""Matches characters that Markdown or HTML interprets anywhere in a line."""
_LEADING = re.compile(r"^([#>+-])")
"""Matches characters that Markdown interprets at the start of a line."""


def page_markdown(page: ReportPage) -> str:
    """Return the page as Markdown."""
    parts = [f"# {_escaped_line(page.title)}", f"**{page.status}** {_escaped_line(page.summary)}"]
    if page.banner:
        parts.insert(0, f"> **{_escaped_line(page.banner)}**")
    return escape_lines("\n\n".join([*parts, *(_markdown_section(section) for section in page.sections)])) + "\n"


def _markdown_section(section: PageSection) -> str:
    return "\n\n".join([f"## {_escaped_line(section.title)}", *(_markdown_block(block) for block in section.blocks)])


def _markdown_block(block: Block) -> str:
    if isinstance(block, PageTable):
        lines = [block.head, tuple("---" for _ in block.head)]
        head = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([*head, *("| " + " | ".join(map(_escaped, row)) + " |" for row in block.rows)])
    if isinstance(block, PageList):
        return "\n".join(f"- {_escaped_line(line)}" for line in block.lines)
    if isinstance(block, Picture):
        return f"{_escaped_line(block.title)}: `{block.path}`"
    return _escaped_line(block)


def _escaped_line(text: str) -> str:
    """Return a line of text in which Markdown and HTML interpret nothing."""
    return _LEADING.sub(r"\\\1", _escaped(text))


def _escaped(text: str) -> str:
    """Return a text that is safe within a line, but not at its start. Line breaks become spaces."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))


PAGE = "report.html"
"""Name of the HTML file in the job's folder, and last part of the page's URL."""


def page_links(id: str) -> tuple[Link, ...]:
    """Return the links to the report page of an evaluation, as Markdown and as HTML."""
    return (
        Link(f"lab://evals/{id}/report", "the evaluation's report"),
        Link(f"lab://evals/{id}/{PAGE}", "the same as a page with its picture, for a browser"),
    )
