"""Shows a report in a terminal: with colours and tables for people, as plain text, as JSON, or as Markdown."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.text import clip, escape
from prime_lab_mcp.server import rendering

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

OutputFormat = Literal["text", "json", "markdown"]
FORMATS: tuple[OutputFormat, ...] = ("text", "json", "markdown")

_COLOURS = {
    "passed": "green",
    "failed": "red",
    "error": "red",
    "blocker": "red",
    "blocked": "yellow",
    "warning": "yellow",
    "inconclusive": "yellow",
    "needs_confirmation": "magenta",
    "running": "cyan",
    "info": "cyan",
}
_ROWS, _COLUMNS, _CELL, _LINES = 12, 7, 48, 6
"""Size of a table of data, and the most lines of a cell. `--output json` has everything."""


def show_report(report: Report, output: OutputFormat) -> None:
    """Print a report to stdout. JSON and Markdown hold the whole report; a terminal gets colours and tables."""
    if output == "json":
        print(json.dumps(rendering.whole(report), ensure_ascii=False, indent=2))
        return
    if output == "markdown":
        print(markdown(rendering.whole(report)))
    elif sys.stdout.isatty():
        from rich.console import Console  # late: nothing else of the program waits for it

        show_on(Console(highlight=False), rendering.structured(report))
    else:
        print(rendering.text(rendering.structured(report)))
    for picture in report.pictures:
        print(escape(f"picture {picture.path} ({picture.title})"))


def command_of(step: Mapping[str, Any]) -> str:
    """The command line of a recommended call."""
    words = ["prime-lab-mcp", "call", str(step["tool"])]
    for name, value in (step.get("arguments") or {}).items():
        words += [f"--{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
    return shlex.join(words)


def show_on(console: Console, content: Mapping[str, Any]) -> None:
    """Print a report with colours: findings with their fixes, data as tables, and the next calls as commands."""
    from rich.padding import Padding
    from rich.text import Text

    status = str(content["status"])
    console.print(Text.assemble((status.replace("_", " "), f"bold {_COLOURS[status]}"), "  ", content["summary"]))
    for finding in content["findings"]:
        where = f" {finding['where']}" if finding.get("where") else ""
        head = (f"{finding['severity']} {finding['code']}", _COLOURS[finding["severity"]])
        console.print(Text.assemble("\n", head, (where, "dim"), f"  {finding['message']}"))
        console.print(Padding(Text(f"fix: {finding['fix']}", "dim"), (0, 0, 0, 2)))
    for need in content["unmet"]:
        console.print(Text.assemble(("needs ", "yellow"), f"{need['tool']} ({need['why']}): {need['detail']}"))
    _show_data(console, content["data"])
    if content["next"]:
        console.print()
    for step in content["next"]:
        console.print(Text.assemble(("next ", "bold"), command_of(step), (f"  # {step['why']}", "dim")), soft_wrap=True)
    for link in content["links"]:
        console.print(Text.assemble(("see ", "dim"), f"{link['uri']} ({link['title']})"), soft_wrap=True)


def _show_data(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    plain = {name: value for name, value in data.items() if not _is_table(value) and value not in (None, [], {})}
    if plain:
        console.print()
    width = min(24, max((len(name) for name in plain), default=0))
    for name, value in plain.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        console.print(Text.assemble((f"{name:{width}} ", "bold"), clip(shown, 300)))
    for name, value in data.items():
        if _is_table(value):
            console.print(_table(name, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns = list(dict.fromkeys(column for row in rows for column in row))[:_COLUMNS]
    left_out = f" ({_ROWS} of {len(rows)}; --output json has all)" if len(rows) > _ROWS else ""
    table = Table(title=Text(f"{name}{left_out}"), title_justify="left", box=box.SIMPLE_HEAD, header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows[:_ROWS]:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    return table


def _cell(value: Any) -> str:
    """A value in a table. Objects in a list are a line each with their first two values, as in `run_eval open`."""
    if value is None:
        return ""
    if _is_table(value):
        lines = [clip(" ".join(_scalars(row)[:2]), _CELL) for row in value[:_LINES]]
        return "\n".join([*lines, *([f"and {len(value) - _LINES} more"] if len(value) > _LINES else [])])
    return clip(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _CELL)


def _scalars(row: Mapping[str, Any]) -> list[str]:
    """The values of an object that are no lists or objects themselves."""
    kept = [value for value in row.values() if value is not None and not isinstance(value, (list, dict))]
    return [value if isinstance(value, str) else json.dumps(value) for value in kept]


def markdown(content: Mapping[str, Any]) -> str:
    """The whole report as Markdown: findings as a list, the next calls as commands, the data as a block of JSON."""
    lines = [f"**{content['status']}**: {_inline(content['summary'])}"]
    lines += [""] if content["findings"] or content["unmet"] else []
    for finding in content["findings"]:
        where = f" {_code(finding['where'])}" if finding.get("where") else ""
        lines.append(f"- **{finding['severity']}** `{finding['code']}`{where}: {_inline(finding['message'])}")
        lines.append(f"  - Fix: {_inline(finding['fix'])}")
    for need in content["unmet"]:
        lines.append(f"- needs `{need['tool']}` ({need['why']}): {_inline(need['detail'])}")
    lines += ["", "Next:", ""] if content["next"] else []
    lines += [f"- {_code(command_of(step))}: {_inline(step['why'])}" for step in content["next"]]
    lines += ["", "See:", ""] if content["links"] else []
    lines += [f"- {_code(link['uri'])} ({_inline(link['title'])})" for link in content["links"]]
    if content["data"]:
        text = json.dumps(content["data"], ensure_ascii=False, indent=2)
        fence = _fence(text)
        lines += ["", f"{fence}json", text, fence]
    return "\n".join(lines)


def _inline(text: str) -> str:
    """Text of a report with the characters escaped that Markdown would read as more than text."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|" else c for c in text)


def _code(text: str) -> str:
    ticks = _fence(text, least=1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def _fence(text: str, least: int = 3) -> str:
    """More backticks than the text has in a row."""
    count = least
    while "`" * count in text:
        count += 1
    return "`" * count
