"""The world of the property test: workspaces, servers on one ledger, and what really reached the stub `prime`.

Real: the call path, gates, ledger, snapshots, approval, push_environment, write/check_training_config,
submit_training, edit_environment. In place of the slow programs: a stub `prime`, and tools of the right names whose
verdict is a function of the files alone (a reward that says FLAW is flawed).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from pydantic import Field

from prime_lab_mcp.lab.base.report import Finding, Report
from prime_lab_mcp.lab.base.settings import Platform, Settings
from prime_lab_mcp.lab.hub import publish
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import (
    check_training_config,
    edit_environment,
    push_environment,
    submit_training,
    workflow_status,
    write_training_config,
)
from prime_lab_mcp.tools.tool import Arguments, Call, Tool
from tests.support.distributions import install_distribution
from tests.support.wheels import quick_wheel

MODEL = "Qwen/Qwen3-4B-Instruct-2507"
PYPROJECT = """[project]
name = "sums"
version = "0.1.0"
description = "Sums."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.4.0,<0.5"]
"""
TASKSET = '''"""Sums."""
import verifiers.v1 as vf


class SumsTask(vf.Task):
    reward = "{word}"


class Sums(vf.Taskset):
    pass
'''
WORDS = ("sound", "sound too", "FLAW", "DEAD", "BROKEN")
"""A flaw that only an argument opens is written as "ARGUMENT pays all".

FLAW: the reward test finds it. DEAD: the distribution does. BROKEN: the environment check does."""
FOREIGN = "primeintellect/other@1.0.0"
ROLES: list[dict[str, str]] = [{"name": "agent", "harness": "null", "runtime": "subprocess"}]
"""The agents that a check records, as real checks of v1 do."""


class OnEnvironment(Arguments):
    environment: str = Field(min_length=1)
    group_size: int = 16
    env_args: dict[str, Any] | None = None
    model: str | None = None
    harness: str | None = None


def _verdict_tool(name: str, fatal: str, *, model: str | None = None) -> Tool[OnEnvironment]:
    async def run(call: Call, args: OnEnvironment) -> Outcome:
        tree = call.environment.tree
        text = "".join(p.read_text(encoding="utf-8") for p in sorted(tree.rglob("*.py")))
        given = args.env_args or {}
        flawed = fatal in text or (name == "test_reward" and any(f"{k} pays all" in text for k in given if given[k]))
        findings = (Finding("said", "blocker", f"it says {fatal}", "Do not."),) if flawed else ()
        interpreter = await call.lab.interpreters.for_package({})
        facts = Facts(
            toolchain={DISTRIBUTIONS: await present_distributions(call.lab, call.environment)},
            model=(args.model or model) if model else None,
            env_args=given,
            harness=args.harness,
            unreported={
                "endpoint_named_by": "person",
                "interpreter": str(interpreter.python),
                "roles": list(ROLES),
            },
        )
        return Outcome("failed" if findings else "passed", name, findings, facts=facts)

    return Tool(
        name=name,
        title=name,
        description=name,
        args=OnEnvironment,
        run=run,
        effect="executes",
        snapshot=True,
        records="environment",
    )


TOOLS = (
    workflow_status.TOOL,
    edit_environment.TOOL,
    _verdict_tool("check_environment", "BROKEN"),
    _verdict_tool("test_reward", "FLAW"),
    _verdict_tool("run_eval", "NEVER", model=MODEL),
    _verdict_tool("check_reward_distribution", "DEAD", model=MODEL),
    push_environment.TOOL,
    write_training_config.TOOL,
    check_training_config.TOOL,
    submit_training.TOOL,
)


class StubToolchain:
    """Says where the stub `prime` is."""

    def __init__(self, prime: Path) -> None:
        self._prime = prime

    def programs(self, name: str) -> tuple[Path, ...]:
        return (self._prime,) if name == "prime" else ()

    async def versions(self) -> dict[str, str | None]:
        return {"prime": "0.18.0"}


class StubInterpreters:
    """One Python for every package."""

    def __init__(self, python: Path) -> None:
        self._python = python

    async def for_package(self, pyproject: Mapping[str, Any], **options: Any) -> Interpreter:
        return Interpreter(self._python, "0.4.0", "stub")

    present = for_package


class World:
    """One machine: a state directory, two workspaces, any number of servers."""

    def __init__(self, root: Path, *, fresh: bool = True) -> None:
        """`fresh`: False joins a machine that another process has set up."""
        self.root = root
        self.hub = root / "hub"
        self.hub.mkdir(parents=True, exist_ok=not fresh)
        os.environ["PRIME_STUB_HOME"] = str(self.hub)
        self.prime = root / "prime"
        self.python = root / "venv" / "bin" / "python"
        if fresh:
            self._set_up()
        self.loop = asyncio.new_event_loop()
        self._building = mock.patch.object(publish, "build_pushed_wheel", quick_wheel)
        self._building.start()
        self.labs: list[Lab] = []
        self.questions: list[str] = []

    def _set_up(self) -> None:
        stub = (Path(__file__).parent / "stub_prime.py").read_text(encoding="utf-8").split("\n", 1)[1]
        self.prime.write_text(f"#!{sys.executable} -SE\n{stub}", encoding="utf-8")
        self.prime.chmod(0o755)
        self.install("verifiers", "0.4.0", requires=("helper",))
        self.install("helper", "1.0")
        self.publish_foreign()

    @property
    def site(self) -> Path:
        """The folder of the installed distributions."""
        return self.python.parent.parent / "lib" / "python3.11" / "site-packages"

    def install(
        self, name: str, version: str, code: str = "PAYS = 1\n", requires: tuple[str, ...] = (), origin: Any = None
    ) -> None:
        """Install a distribution with one module, in place of another version of it."""
        install_distribution(self.site, name, version, code, requires, origin)

    def workspace(self, name: str) -> Path:
        path = self.root / name
        (path / "environments").mkdir(parents=True, exist_ok=True)
        return path

    def server(self, workspace: str, platform: Platform = "prime") -> Calls:
        settings = Settings(
            workspace=self.workspace(workspace), state_dir=self.root / "state", rehearsal=platform == "rehearsal"
        )

        async def variables() -> Mapping[str, str]:
            return {"PRIME_STUB_HOME": str(self.hub)}

        lab = Lab(settings, variables)
        lab.__dict__["toolchain"] = StubToolchain(self.prime)
        lab.__dict__["interpreters"] = StubInterpreters(self.python)
        self.labs.append(lab)
        return Calls(lab, TOOLS, References())

    def call(self, server: Calls, tool: str, **arguments: Any) -> Report:
        async def ask(question: str) -> Any:
            self.questions.append(question)
            return "approved"

        return self.loop.run_until_complete(server.execute(tool, arguments, ask=ask))

    def write(
        self, workspace: str, folder: str, word: str = "sound", version: str = "0.1.0", readme: str = "a"
    ) -> Path:
        path = self.workspace(workspace) / "environments" / folder
        (path / "sums").mkdir(parents=True, exist_ok=True)
        (path / "pyproject.toml").write_text(PYPROJECT.replace("0.1.0", version, 1), encoding="utf-8")
        (path / "README.md").write_text(f"# Sums\n{readme}\n", encoding="utf-8")
        (path / "sums" / "__init__.py").write_text(
            'from sums.taskset import Sums\n\n__all__ = ["Sums"]\n', encoding="utf-8"
        )
        (path / "sums" / "taskset.py").write_text(TASKSET.replace("{word}", word), encoding="utf-8")
        return path

    def on_disk(self, workspace: str, folder: str) -> Snapshot:
        path = self.workspace(workspace) / "environments" / folder
        return take_snapshot(
            EnvironmentFolder(folder, path, f"environments/{folder}"), self.root / "state" / "snapshots"
        )

    def pushes(self) -> list[dict[str, Any]]:
        return [push for push in self._load("pushes") if push["ref"] != FOREIGN.split("@")[0]]

    def runs(self) -> list[dict[str, Any]]:
        path = self.hub / "runs"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def end_runs(self) -> None:
        """Every run so far has completed."""
        ended = [run | {"status": "COMPLETED"} for run in self.runs()]
        (self.hub / "runs").write_text("".join(f"{json.dumps(run)}\n" for run in ended), encoding="utf-8")

    def publish_foreign(self) -> None:
        """Somebody else's environment, on the Hub before anything happens here."""
        files = {"pyproject.toml": PYPROJECT.replace('"sums"', '"other"').replace("0.1.0", "1.0.0")}
        entry = {"ref": "primeintellect/other", "version": "1.0.0", "hash": "f" * 64, "files": files}
        (self.hub / "pushes").write_text(json.dumps([entry]), encoding="utf-8")

    def publish_by_hand(self, ref: str, version: str, files: Mapping[str, str], digest: str | None = None) -> None:
        """Somebody ran `prime env push` without this server. `digest` is the Hub's content hash."""
        entry = {"ref": ref, "version": version, "hash": digest or os.urandom(32).hex(), "files": dict(files)}
        (self.hub / "pushes").write_text(json.dumps([*self._load("pushes"), entry]), encoding="utf-8")

    def files(self, workspace: str, folder: str) -> dict[str, str]:
        disk = self.on_disk(workspace, folder)
        return {path: (disk.tree / path).read_text(encoding="utf-8") for path in disk.files}

    def _load(self, name: str) -> list[dict[str, Any]]:
        path = self.hub / name
        return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []

    def close(self) -> None:
        for lab in self.labs:
            self.loop.run_until_complete(lab.close())
        self.loop.close()
        self._building.stop()
