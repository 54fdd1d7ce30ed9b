"""`python -m tests.external.server WORKSPACE STATE`: over stdio, all tools and two of tests: one hangs, one asks.

What takes minutes with real tools (a call that is worth cancelling, a question about money) takes no time here, and
goes the same way: arguments, gates, approval, progress, report.
"""

from __future__ import annotations

import sys

import anyio

from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.main import open_lab, settings
from prime_lab_mcp.tools.registry import TOOLS
from tests.protocol.toys import TOYS

OWN = ("hang", "spend")
"""The tools of tests: `hang` starts a process that sleeps, `spend` asks before it does what it is called for."""

if __name__ == "__main__":
    lab = open_lab(settings(sys.argv[1], sys.argv[2]))
    server = build_server(lab, (*TOOLS, *(tool for tool in TOYS if tool.name in OWN)))
    anyio.run(server.run_stdio_async)
