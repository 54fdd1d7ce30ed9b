"""`python -m tests.protocol.slow_sender WORKSPACE STATE`: HTTP with a tool that spends for many seconds."""

from __future__ import annotations

import sys

import anyio

from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.http import CLOSING_SECONDS, Address, serve_http
from prime_lab_mcp.server.main import open_lab, settings
from prime_lab_mcp.tools.tool import Call, Intent, Plan, PlannedTool
from tests.protocol.toys import Paid


async def plan(call: Call, args: Paid) -> Plan[float]:
    return Plan(args.amount, Intent("submit", f"slow-{args.amount}", "Spend?", args.amount))


async def spend(call: Call, plan: Plan[float]) -> Outcome:
    state = call.lab.settings.state_dir
    (state / "begun").touch()
    await anyio.sleep(CLOSING_SECONDS + 1.5)
    (state / "sent").touch()
    return Outcome("passed", "sent")


if __name__ == "__main__":
    tool = PlannedTool(
        name="spend", title="Spend", description="Slow.", args=Paid, plan=plan, run=spend, effect="spends"
    )
    lab = open_lab(settings(sys.argv[1], sys.argv[2], max_spend=100.0))
    serve_http(build_server(lab, (tool,)), Address("127.0.0.1", 0), "t" * 40)
