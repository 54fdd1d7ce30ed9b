"""One server that submits a config, as a program of its own: it is killed in the middle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.program import PrimeProgram
from prime_lab_mcp.lab.state.once import Delays
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.training import submission
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.tools.submit_training import TOOL
from prime_lab_mcp.tools.tool import Call
from tests.property.world import World

HASTY = Delays(limit=6.0, landing=2.0, landing_after_failure=2.0, wait=90.0, looks=(0.0, 0.1))


def hurry(patch: Callable[[object, str, object], None] = setattr) -> None:
    """Give prime up after 4 s, and take everything that was sent to have landed 2 s later."""
    whole = PrimeProgram.completed

    async def hasty(self: PrimeProgram, arguments: Any, *, timeout: float, **options: Any) -> Any:
        return await whole(self, arguments, timeout=min(timeout, 4.0), **options)

    patch(PrimeProgram, "completed", hasty)
    patch(submission, "DELAYS", {"prime": HASTY, "rehearsal": HASTY})


async def submitted(lab: Lab, config: Path) -> Mapping[str, object]:
    """One call of the tool, its gates passed and its plan approved; what it reports. Raises LabError."""

    async def progress(done: float, total: float | None, message: str) -> None:
        return None

    async def prove(name: str, taken: Snapshot) -> Report:
        raise AssertionError("nothing is proven here")

    call = Call(lab, None, progress, References(), prove, config=config)
    outcome = await TOOL.run(call, await TOOL.plan(call, TOOL.args.model_validate({"config": config.name})))
    return outcome.data


def main(root: Path, config: Path) -> None:
    hurry()
    world = World(root, fresh=False)
    try:
        asyncio.run(submitted(world.server("one").lab, config))
    except LabError as error:
        print(error.code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
