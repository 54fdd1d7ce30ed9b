"""How many processes of `prime` a call starts, counted against the loopback stand-in of the platform."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.claims import claim
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.hub.hub_files import FetchedHubFiles
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.program import PrimeProgram
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

_ENVIRONMENT = "primeintellect/reverse-text"
_CONFIG = f"""\
max_steps = 20
seq_len = 2048

[model]
name = "Qwen/Qwen3-4B-Instruct-2507"

[ckpt]
interval = 5

[trainer]

[orchestrator]
batch_size = 16
group_size = 8

[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "{_ENVIRONMENT}@0.2.0"

[orchestrator.train.source.env.agent.harness]
id = "null"

[inference]

[inference.vllm]
max_model_len = 4096
"""


async def _measure(folder: Path) -> int:
    (folder / "workspace" / "environments").mkdir(parents=True)
    (folder / "workspace" / "run.toml").write_text(_CONFIG, encoding="utf-8")
    settings = Settings(workspace=folder / "workspace", state_dir=folder / "state", rehearsal=True)
    child, url = await connection.start(folder / "platform")
    started: list[str] = []
    whole = PrimeProgram._start

    async def counted(self: PrimeProgram, argv: Any, *rest: Any) -> Any:
        started.append(str(argv[1]))
        return await whole(self, argv, *rest)

    async def variables() -> Mapping[str, str]:
        return connection.environment(url, folder / "home")

    vars_of_class: Any = PrimeProgram
    vars_of_class._start = counted
    asked: list[int] = []

    async def decline(question: str) -> Any:
        asked.append(len(started))
        return "declined"

    async with child:
        lab = Lab(settings, variables)
        calls = Calls(lab, TOOLS, References())

        async def count(tool: str, **arguments: str) -> int:
            started.clear()
            report = await calls.execute(tool, arguments, ask=decline)
            if report.status not in ("passed", "needs_confirmation"):
                raise RuntimeError(f"{tool}: {json.dumps(report.as_json())[:1000]}")
            return len(started)

        try:
            await lab.prime.version()
            first, again = await count("preflight"), await count("preflight")
            checked = await count("check_training_config", path="run.toml")
            lab.memory(FetchedHubFiles).forget(_ENVIRONMENT)
            lab.prime._account = lab.prime._teams = None
            asked.clear()
            await count("submit_training", config="run.toml")
        finally:
            vars_of_class._start = whole
            await lab.close()
    if not asked:
        raise RuntimeError("submit_training asked nothing")
    return max(
        claim("platform_starts", "preflight", first, 1, "starts of prime"),
        claim("platform_starts", "preflight while nothing changed", again, 0, "starts of prime"),
        claim("platform_starts", "check_training_config", checked, 2, "starts of prime"),
        claim("platform_starts", "submission of a checked config up to its question", asked[0], 2, "starts of prime"),
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(_measure(Path(scratch)))
