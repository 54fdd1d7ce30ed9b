"""Tool servers of rollouts are forked from one process that has imported verifiers, and share no state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.runner.attempt import JobAttempt
from prime_lab_mcp.lab.evals.runner.command import JobFiles
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.sandbox.policy import LIBRARIES
from tests.lab.evals.scripted import adds, serving

needs_pidfds = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
SHELF = """
import json, os, sys
import verifiers.v1 as vf

TAKEN = 0

class Shelf(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = None

    async def setup(self):
        with open(os.path.join(os.path.expanduser("~"), "servers.txt"), "a") as file:
            file.write(json.dumps([os.getpid(), "prime_lab_tool_servers" in " ".join(sys.orig_argv)]) + "\\n")

    @vf.tool
    def take(self) -> str:
        "Take one."
        global TAKEN
        TAKEN += 1
        facts = {"taken": TAKEN, "name": __name__, "main": sys.modules["__main__"].__spec__.name, "path": sys.path[1:3]}
        facts |= {"folder": os.getcwd() == os.environ["TMPDIR"], "group": os.getpgid(0) == os.getpid()}
        facts["pid"] = os.getpid()
        facts |= {"argv": len(sys.argv), "key": os.environ.get("OWN_API_KEY"), "output": os.readlink("/proc/self/fd/1")}
        return json.dumps(facts)

if __name__ == "__main__":
    Shelf.run()
"""
PROGRAM = """
import asyncio, json, os, sys
from mcp import Client
from verifiers.v1.mcp.launch import serve
from verifiers.v1.runtimes.subprocess import SubprocessConfig, SubprocessRuntime
import verifiers.v1 as vf
import shelf

async def rollout():
    runtime = SubprocessRuntime(SubprocessConfig())
    await runtime.start()
    try:
        async with serve(shelf.Shelf(vf.ToolsetConfig()), runtime) as url:
            async with Client(url) as client:
                return [json.loads((await client.call_tool("take", {})).content[0].text) for _ in range(2)]
    finally:
        await runtime.stop()

async def main():
    rollouts = [await rollout(), *await asyncio.gather(rollout(), rollout())]
    left = [facts[0]["pid"] for facts in rollouts if os.path.exists(f"/proc/{facts[0]['pid']}/exe")]
    print(json.dumps({"rollouts": rollouts, "left": left}))

asyncio.run(main())
"""
TASKSET = """
import verifiers.v1 as vf
from sums.shelf import Shelf

class SumTask(vf.Task[vf.TaskData]):
    @classmethod
    def toolsets(cls, config):
        return [Shelf(vf.ToolsetConfig())]

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return 1.0

class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        return [SumTask(vf.TaskData(prompt=f"{i} + {i}?"), self.config.task) for i in range(4)]

__all__ = ["SumTaskset"]
"""


def servers(folder: Path) -> list[tuple[int, bool]]:
    """Of each server that was started with this HOME: its process, and whether it was forked."""
    lines = (folder / "servers.txt").read_text(encoding="utf-8").splitlines()
    return [(pid, forked) for pid, forked in map(json.loads, lines)]


def play(folder: Path, *libraries: Path) -> dict[str, Any]:
    """Play three rollouts. `libraries` stand before the package on the module path."""
    folder.mkdir()
    (folder / "shelf.py").write_text(SHELF, encoding="utf-8")
    paths = os.pathsep.join(map(str, (*libraries, folder)))
    variables = {"PYTHONPATH": paths, "HOME": str(folder), "OWN_API_KEY": "secret"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", **variables},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def comparable(seen: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The facts of the rollouts without what differs between any two runs."""
    return [
        [{**facts, "pid": None, "path": len(facts["path"]), "output": Path(facts["output"]).name} for facts in rollout]
        for rollout in seen["rollouts"]
    ]


@pytest.fixture(scope="module")
def forked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where rollouts were played whose tool servers are forked."""
    return tmp_path_factory.mktemp("forking") / "forked"


@pytest.fixture(scope="module")
def forked(forked_folder: Path) -> dict[str, Any]:
    return play(forked_folder, LIBRARIES)


@pytest.mark.slow
@needs_pidfds
@pytest.mark.rotate(share=2, group="tool servers that verifiers starts itself")
def test_a_forked_tool_server_is_like_one_of_its_own_process(
    forked: dict[str, Any], forked_folder: Path, tmp_path: Path
) -> None:
    own = play(tmp_path / "own")
    assert [was for _, was in servers(forked_folder)] == [True] * 3
    assert [was for _, was in servers(tmp_path / "own")] == [False] * 3
    assert comparable(forked) == comparable(own)
    assert own["left"] == []


@needs_pidfds
def test_forked_tool_servers_share_nothing(forked: dict[str, Any], forked_folder: Path) -> None:
    """Each starts its count at one, in the folder and group of its rollout, and ends with it."""
    assert [was for _, was in servers(forked_folder)] == [True] * 3
    assert [[facts["taken"] for facts in rollout] for rollout in forked["rollouts"]] == [[1, 2]] * 3
    assert {(facts["folder"], facts["group"]) for rollout in forked["rollouts"] for facts in rollout} == {(True, True)}
    assert len({pid for pid, _ in servers(forked_folder)}) == 3
    assert forked["left"] == []


@needs_pidfds
def test_the_forking_process_ends_with_the_program_that_started_it(forked: dict[str, Any], forked_folder: Path) -> None:
    until = time.monotonic() + 60
    while (living := forking_processes(forked_folder)) and time.monotonic() < until:
        time.sleep(0.1)
    assert living == []


def forking_processes(home: Path) -> list[int]:
    living = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
            if b"prime_lab_tool_servers" in command and os.fsencode(home) in (entry / "environ").read_bytes():
                living.append(int(entry.name))
        except OSError:
            continue
    return living


@needs_pidfds
@pytest.mark.rotate(share=2, group="tool servers that verifiers starts itself")
def test_where_no_process_can_be_forked_servers_start_as_verifiers_starts_them(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    sitecustomize = tmp_path / "without"
    sitecustomize.mkdir()
    (sitecustomize / "sitecustomize.py").write_text(
        f"import os, sys\ndel os.pidfd_open\nsys.path.insert(0, {str(LIBRARIES)!r})\ndel sys.modules['sitecustomize']\n"
        "import sitecustomize\n",
        encoding="utf-8",
    )
    play(folder, sitecustomize)
    assert [was for _, was in servers(folder)] == [False] * 3


@pytest.mark.slow
@pytest.mark.anyio
@needs_pidfds
async def test_an_evaluation_forks_the_tool_servers_of_its_rollouts_inside_the_confinement(lab: Lab) -> None:
    package = lab.settings.workspace / "environments" / "sums"
    (package / "sums").mkdir(parents=True)
    (package / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    (package / "sums" / "shelf.py").write_text(SHELF, encoding="utf-8")
    (package / "sums" / "__init__.py").write_text(TASKSET, encoding="utf-8")
    snapshot = await lab.snapshot("sums")
    with serving(adds) as model:
        spec = EvalSpec(
            environment=snapshot.name,
            source=snapshot.source,
            content=snapshot.content,
            tree=snapshot.tree,
            api="v1",
            module="sums",
            python=Path(sys.executable),
            program=Path(sys.executable).parent / "vf-eval",
            verifiers="0.4.0",
            model="scripted",
            endpoint=Endpoint("url", model.url),
            num_examples=2,
            rollouts=2,
            tasks=4,
            max_tokens=64,
        )
        files = JobFiles(lab.settings.evals / "eval-00000001")
        attempt = JobAttempt("eval-00000001", spec, files, lab.ledger, time.time() + 240, ())
        ending = await attempt.run(None)
    assert ending.state == "finished", (ending, files.errors.read_text(encoding="utf-8"))
    results = files.results()
    assert results is not None
    episodes = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    started = servers(files.home)
    assert (len(episodes), [was for _, was in started], len(dict(started))) == (4, [True] * 4, 4)
