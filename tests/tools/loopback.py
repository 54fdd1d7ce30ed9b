"""A lab in rehearsal on a platform of its own, and calls of tool bodies as the call path makes them after its gates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Pushed
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.tools.tool import AnyTool, Call, Intent, Plan, PlannedTool
from tests.support import packages
from tests.support.wheels import wheel_of

PYPROJECT = packages.pyproject(
    "tiny-sums",
    description="Small sums.",
    dependencies=["verifiers>=0.4.0,<0.5"],
    wheel='packages = ["tiny_sums"]',
    more='[tool.ruff]\ntarget-version = "py311"',
)
MODULE = "import verifiers.v1 as vf\n\n\nclass TinySums(vf.Taskset):\n    pass\n"
CONFIG = """\
# a comment that stays
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
id = "primeintellect/reverse-text@0.2.0"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

[inference]

[inference.vllm]
max_model_len = 4096
"""


def pyproject(name: str, text: str = PYPROJECT) -> str:
    return text.replace("tiny-sums", name.replace("_", "-")).replace("tiny_sums", name)


class NoPages:
    def topics(self) -> list[tuple[str, str]]:
        return []

    def page(self, topic: str) -> str | None:
        return None


@dataclass
class Desk:
    """`progress` and `proved` hold what a call said and asked for on its way."""

    lab: Lab
    url: str
    progress: list[str] = field(default_factory=list)
    proved: list[Snapshot] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.lab.workspace.root

    def environment(self, name: str, **files: str) -> Path:
        """A v1 package whose project and module are called like the folder; keywords `pyproject`, `readme`, `code`."""
        folder = self.workspace / "environments" / name
        told = {
            "pyproject.toml": pyproject(name, files.get("pyproject", PYPROJECT)),
            "README.md": files.get("readme", "# sums\n"),
            f"{name}/__init__.py": files.get("code", MODULE),
        }
        for path, text in told.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return folder

    def config(self, text: str = CONFIG, path: str = "configs/rl/sums.toml") -> Path:
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    async def call(self, tool: AnyTool, **arguments: Any) -> Outcome:
        """Arguments to outcome, approval given."""
        call, args = await self.opened(tool, **arguments)
        if isinstance(tool, PlannedTool):
            return await tool.run(call, await tool.plan(call, args))
        return await tool.run(call, args)

    async def plan(self, tool: PlannedTool[Any, Any], **arguments: Any) -> Plan[Any]:
        call, args = await self.opened(tool, **arguments)
        return await tool.plan(call, args)

    async def intent(self, tool: PlannedTool[Any, Any], **arguments: Any) -> Intent | None:
        return (await self.plan(tool, **arguments)).intent

    async def hosted(self, tool: AnyTool, args: Any) -> Call:
        """A call that runs on the platform: on a folder of the workspace, or a name on the Hub."""
        folder = self.workspace / "environments" / args.environment
        snapshot = await self.lab.snapshot(args.environment) if folder.is_dir() else None

        async def progress(done: float, total: float | None, message: str) -> None:
            self.progress.append(message)

        async def prove(name: str, taken: Snapshot) -> Report:
            raise AssertionError("nothing free stands before a hosted evaluation")

        return Call(self.lab, snapshot, progress, NoPages(), prove, hosted=args.environment)

    async def opened(self, tool: AnyTool, **arguments: Any) -> tuple[Call, Any]:
        args = tool.args.model_validate(arguments)
        snapshot = await self.lab.snapshot(arguments["environment"]) if tool.snapshot else None

        async def progress(done: float, total: float | None, message: str) -> None:
            self.progress.append(message)

        async def prove(name: str, taken: Snapshot) -> Report:
            self.proved.append(taken)
            return Report("passed", "fine")

        call = Call(self.lab, snapshot, progress, NoPages(), prove)
        return (replace(call, config=await tool.config(call, args)) if tool.config else call), args

    async def fault(self, kind: str, path: str = "", **options: Any) -> None:
        await connection.tell(self.url, "/rehearsal/faults", {"kind": kind, "path": path, **options})

    async def push_by_hand(self, folder: Path) -> Pushed:
        """`prime env push` without the server's tools."""
        return await self.lab.prime.env_push(folder, wheel_of(folder, self.workspace.parent / "by_hand"), runtime="v1")

    async def tell(self, path: str, **body: Any) -> dict[str, Any]:
        return await connection.tell(self.url, path, body)

    @asynccontextmanager
    async def held_clock(self) -> AsyncIterator[None]:
        """The platform's clock stands still inside, but for what a test advances: what a run has reached does not
        depend on how long `prime` takes to start."""
        await self.tell("/rehearsal/clock", hold=True)
        try:
            yield
        finally:
            await self.tell("/rehearsal/clock", hold=False)

    async def told(self, path: str) -> dict[str, Any]:
        """What the platform itself answers, beside prime."""
        headers = {"Authorization": f"Bearer {connection.KEY}"}
        async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
            found: dict[str, Any] = (await client.get(self.url + path)).json()
        return found

    async def requests(self, method: str, path: str) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {connection.KEY}"}
        async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
            answer = await client.get(self.url + "/rehearsal/requests", params={"method": method, "path": path})
        found: list[dict[str, Any]] = answer.json()["requests"]
        return [r for r in found if r["status"] < 400 or r["fault"]]


@asynccontextmanager
async def desk(folder: Path, *, speed: float = 1.0) -> AsyncIterator[Desk]:
    (folder / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=folder / "workspace", state_dir=folder / "state", rehearsal=True)
    child, url = await connection.start(folder / "platform", speed=speed)
    async with child:

        async def variables() -> Mapping[str, str]:
            return connection.environment(url, folder / "home")

        lab = Lab(settings, variables)
        yield Desk(lab, url)
        await lab.close()
