"""Small tools with one property each, to test the call path and the protocol without any environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools.tool import AnyTool, Arguments, Call, Intent, Plan, PlannedTool, Tool


class Nothing(Arguments):
    pass


class Number(Arguments):
    number: Annotated[int, Field(ge=0, le=10, description="A number.")] = 1
    names: list[str] | None = None


class Paid(Arguments):
    amount: float = 5.0
    yes: bool = False
    confirm: str | None = None


async def _echo(call: Call, args: Number) -> Outcome:
    for step in range(3):
        await call.progress(step, 3, f"step {step}")
    return Outcome("passed", "echoed", data={"number": args.number, "names": args.names})


async def _crash(call: Call, args: Nothing) -> Outcome:
    raise RuntimeError("the key is sk-verysecret12345")


async def _refuse(call: Call, args: Nothing) -> Outcome:
    raise BadInput("this cannot be", fix="Do the other thing.", code="not-so", next=(Next("echo", "instead"),))


async def _flood(call: Call, args: Nothing) -> Outcome:
    rows: tuple[dict[str, Any], ...] = tuple({"row": i, "text": "x" * 900} for i in range(400))
    finding = Finding("big", "blocker", "much", "Less.", rows=rows)
    return Outcome("failed", "a lot", (finding,), data={"rows": list(rows), "text": "y" * 90_000, "nan": float("nan")})


async def _plan(call: Call, args: Paid) -> Plan[float]:
    intent = Intent("submit", f"spend-{args.amount}", f"Spend ${args.amount:.2f}?", args.amount)
    return Plan(args.amount, intent)


async def _spend(call: Call, plan: Plan[float]) -> Outcome:
    await anyio.sleep(0.05)
    marker = call.lab.settings.state_dir / "spent"
    marker.write_text(str(len(marker.read_text(encoding="utf-8")) if marker.exists() else 0), encoding="utf-8")
    if plan.work == 13:
        raise BadInput("an unlucky number", fix="Another.")
    return Outcome("passed", "sent", data={"amount": plan.work})


async def _hang(call: Call, args: Nothing) -> Outcome:
    from prime_lab_mcp.lab.base import process

    marker = call.lab.settings.state_dir / "hang.pid"
    program = f"echo $$ > {marker}; sleep 300 & sleep 300"
    await call.progress(0, None, "hanging")
    await process.run(
        ["/bin/sh", "-c", program], cwd=Path("/"), env=process.clean_environment(), timeout=250, output_limit=1000
    )
    await anyio.sleep(1)
    return Outcome("passed", "woke up")


def toy(name: str, args: type[Arguments], run: Any, effect: Any) -> Tool[Any]:
    return Tool(name=name, title=name.title(), description="A toy.", args=args, run=run, effect=effect)


TOYS: tuple[AnyTool, ...] = (
    toy("echo", Number, _echo, "reads"),
    toy("crash", Nothing, _crash, "reads"),
    toy("refuse", Nothing, _refuse, "reads"),
    toy("flood", Nothing, _flood, "reads"),
    PlannedTool(name="spend", title="Spend", description="Costs.", args=Paid, plan=_plan, run=_spend, effect="spends"),
    toy("hang", Nothing, _hang, "executes"),
)
