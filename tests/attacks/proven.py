"""A workspace whose environment stands before the gate of `run_eval` with all evidence that the gate wants."""

from __future__ import annotations

from typing import Any

import anyio

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment

NAME = "sums_v1"


async def proven_calls(lab: Lab) -> Calls:
    """The call path of a lab with the sound environment `sums_v1`, checked and tested."""
    write_environment(lab.settings.workspace)
    await record(lab, "check_environment")
    await record(lab, "test_reward")
    # The thread that cleans reads the ledger through a connection of its own, while a test deletes or damages the file.
    lab._closed.set()
    if lab._cleaner is not None:
        await anyio.to_thread.run_sync(lab._cleaner.join)
    return Calls(lab, TOOLS, References())


async def record(lab: Lab, tool: str, **fields: Any) -> None:
    """Record a verdict about the present files; passed unless `fields` say otherwise."""
    snapshot = await lab.snapshot(NAME)
    row = {"status": "passed", "environment": NAME, "source": snapshot.source, "content": snapshot.content}
    lab.ledger.record(Evidence(tool=tool, workspace=lab.key, **(row | fields)))  # type: ignore[arg-type]
