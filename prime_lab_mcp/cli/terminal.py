"""`prime-lab-mcp call`: runs one tool in a terminal and prints its report, with a progress bar and an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from prime_lab_mcp.cli.report_view import OutputFormat, show_report
from prime_lab_mcp.cli.tool_arguments import parse_pairs, tool_help
from prime_lab_mcp.lab.base.report import Progress, Report, Status
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import escape, escape_lines
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.main import open_lab
from prime_lab_mcp.tools.registry import TOOLS

EXIT: Mapping[Status, int] = {
    "passed": 0,
    "failed": 1,
    "inconclusive": 1,
    "blocked": 3,
    "error": 4,
    "running": 5,
    "needs_confirmation": 6,
}
_JSON_FIX = """Give for example --json '{"environment": "my-env"}', or each argument as --name value."""


def call(
    settings: Settings, tool: str, given_json: str | None, rest: Sequence[str], output: OutputFormat = "text"
) -> int:
    """Run one tool and print its report. Returns the exit code of its status; 2 for unusable arguments."""
    try:
        given = _object(given_json) if given_json else parse_pairs(rest, tool_help(tool))
    except ValueError as error:
        print(f"prime-lab-mcp: {escape_lines(str(error))}", file=sys.stderr)
        return 2
    report = run_tool(settings, tool, given)
    show_report(report, output)
    return 2 if any(f.code in ("bad-argument", "unknown-tool") for f in report.findings) else EXIT[report.status]


def _object(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--json is no JSON: {error}\n{_JSON_FIX}") from error
    if not isinstance(given, dict):
        raise ValueError(f"--json takes one JSON object\n{_JSON_FIX}")
    return given


def run_tool(settings: Settings, tool: str, given: dict[str, Any]) -> Report:
    """Run one tool through the call path, with a progress bar where stderr is a terminal."""
    return anyio.run(_call, settings, tool, given)


async def _call(settings: Settings, tool: str, given: dict[str, Any]) -> Report:
    lab = open_lab(settings)
    with _progress_bar() as progress:
        try:
            return await Calls(lab, TOOLS, References()).execute(tool, given, progress=progress)
        finally:
            with anyio.CancelScope(shield=True):
                await lab.close()


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Give a callback that draws a bar on stderr, and nothing where stderr is no terminal."""

    async def silent(done: float, total: float | None, message: str) -> None:
        return None

    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console  # late: no report that is piped on waits for it
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    # The message is text of the calls: shown as it is, not as markup.
    columns = (SpinnerColumn(), BarColumn(20), TaskProgressColumn(), TimeElapsedColumn())
    message_column = TextColumn("{task.description}", markup=False)
    with Bar(*columns, message_column, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        async def draw(done: float, total: float | None, message: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(message[:100]))

        yield draw
