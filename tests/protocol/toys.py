"""Small tools with one property each, to test the call path and the protocol without any environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
from pydantic import Field

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding, Next, Outcome
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Tool


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


async def _spend(call: Call, args: Paid) -> Outcome:
    await anyio.sleep(0.05)
    marker = call.lab.settings.state_dir / "spent"
    marker.write_text(str(len(marker.read_text(encoding="utf-8")) if marker.exists() else 0), encoding="utf-8")
    if args.amount == 13:
        raise BadInput("an unlucky number", fix="Another.")
    return Outcome("passed", "sent", data={"amount": args.amount})


async def _intent(call: Call, args: Paid) -> Intent:
    return Intent("submit", f"spend-{args.amount}", f"Spend ${args.amount:.2f}?", args.amount)


async def _hang(call: Call, args: Nothing) -> Outcome:
    from prime_lab_mcp.lab import process

    marker = call.lab.settings.state_dir / "hang.pid"
    program = f"echo $$ > {marker}; sleep 300 & sleep 300"
    await call.progress(0, None, "hanging")
    await process.run(
        ["/bin/sh", "-c", program], cwd=Path("/"), env=process.clean_environment(), timeout=250, output_limit=1000
    )
    await anyio.sleep(1)
    return Outcome("passed", "woke up")


TOYS = (
    Tool("echo", "Echo", "Say it back.", Number, _echo, "reads"),
    Tool("crash", "Crash", "Breaks.", Nothing, _crash, "reads"),
    Tool("refuse", "Refuse", "Says no.", Nothing, _refuse, "reads"),
    Tool("flood", "Flood", "Says much.", Nothing, _flood, "reads"),
    Tool("spend", "Spend", "Costs.", Paid, _spend, "spends", intent=_intent),
    Tool("hang", "Hang", "Waits.", Nothing, _hang, "executes"),
)
