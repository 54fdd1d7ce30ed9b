"""`prime-lab-mcp call`: runs one tool in a terminal and prints its report, with a progress line and an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from prime_lab_mcp.lab.base.report import Report, Status
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import escape
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import rendering
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


def call(settings: Settings, tool: str, given_json: str | None, rest: Sequence[str]) -> int:
    """Run one tool and print its report. Returns the exit code of its status; 2 for unusable arguments."""
    try:
        given = json.loads(given_json) if given_json else _pairs(rest)
    except ValueError as error:
        print(f"prime-lab-mcp: {escape(str(error))}", file=sys.stderr)
        return 2
    if not isinstance(given, dict):
        print("prime-lab-mcp: --json takes one JSON object", file=sys.stderr)
        return 2
    report = anyio.run(_call, settings, tool, given)
    print(rendering.text(rendering.structured(report)))
    for picture in report.pictures:
        print(escape(f"picture {picture.path} ({picture.title})"))
    return 2 if any(f.code in ("bad-argument", "unknown-tool") for f in report.findings) else EXIT[report.status]


async def _call(settings: Settings, tool: str, given: dict[str, Any]) -> Report:
    lab = open_lab(settings)
    in_terminal = sys.stderr.isatty()

    async def progress(done: float, total: float | None, message: str) -> None:
        if in_terminal:
            share = f"{done / total:4.0%}" if total else f"{done:4.0f}"
            print(f"\r\033[K{share} {escape(message[:100])}", end="", file=sys.stderr, flush=True)

    try:
        return await Calls(lab, TOOLS, References()).execute(tool, given, progress=progress)
    finally:
        if in_terminal:
            print("\r\033[K", end="", file=sys.stderr)
        with anyio.CancelScope(shield=True):
            await lab.close()


def _pairs(rest: Sequence[str]) -> dict[str, Any]:
    """Parse `--key value` pairs. A value that is JSON is decoded, and `--key` without a value is true."""
    given: dict[str, Any] = {}
    items = list(rest)
    while items:
        name = items.pop(0)
        if not name.startswith("--"):
            raise ValueError(f"expected --name value, got {name}")
        name, equals, value = name[2:].partition("=")
        if not equals:
            value = items.pop(0) if items and not items[0].startswith("--") else "true"
        try:
            given[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            given[name.replace("-", "_")] = value
    return given
