"""One server that submits a config, as a program of its own: it is killed in the middle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.report import Report
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.tools.submit_training import TOOL
from prime_lab_mcp.tools.tool import Call
from tests.property.world import World


async def submitted(lab: Lab, config: Path) -> Mapping[str, object]:
    """One call of the tool's body, after its gates and its approval; what it reports. Raises LabError."""

    async def progress(done: float, total: float | None, message: str) -> None:
        return None

    async def prove(name: str, taken: Snapshot) -> Report:
        raise AssertionError("nothing is proven here")

    call = Call(lab, None, progress, References(), prove, config=config)
    outcome = await TOOL.run(call, TOOL.args.model_validate({"config": config.name}))
    return outcome.data


def main(root: Path, config: Path) -> None:
    world = World(root, fresh=False)
    try:
        asyncio.run(submitted(world.server("one").lab, config))
    except LabError as error:
        print(error.code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
