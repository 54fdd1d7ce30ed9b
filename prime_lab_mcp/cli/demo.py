"""`prime-lab-mcp demo`: runs the whole workflow in rehearsal, through a real MCP client over stdio.

It uses a real server process, the real `vf-eval` and the real `prime`, with a scratch workspace and the loopback
platform. Every step states its expected status, and some expect a refusal. The exit code is 0 only if every step has
its expected status.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

from prime_lab_mcp.cli.demo_data import write_problems
from prime_lab_mcp.lab.base.errors import BadInput

Era = Literal["auto", "legacy"]
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
NAME = "harvest-sums"
STEP_SECONDS = 240
INSTALL_SECONDS = 1800
"""The toolchain is about 200 packages; a slow line takes long to bring them."""
QUIET_SECONDS = 2.0
LABEL = " (Rehearsal: the platform is a stand-in.)"
"""End of every summary in a rehearsal. The demo says it once, in its first line."""


class Unexpected(Exception):
    """A step had an unexpected status, so that the following steps would be meaningless."""


@dataclass(slots=True)
class Show:
    """Prints the steps and counts failed expectations."""

    started: float = field(default_factory=time.monotonic)
    wrong: list[str] = field(default_factory=list)
    interactive: bool = field(default_factory=sys.stdout.isatty)
    told: float = 0.0
    """Time of the last progress line, for outputs in which lines cannot be overwritten."""

    def say(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def line(self, text: str) -> None:
        print(f"    {text}", flush=True)

    def expect(self, what: str, true: bool) -> None:
        """Print an expectation. If it is false, the demo fails."""
        print(f"    {'ok ' if true else 'NOT TRUE'} {what}")
        if not true:
            self.wrong.append(what)


@dataclass(slots=True)
class Walk:
    """One client that goes through the workflow."""

    client: Client
    show: Show

    async def call(self, tool: str, expected: str, seconds: float = STEP_SECONDS, **arguments: Any) -> dict[str, Any]:
        """Call a tool, print name, status and summary, and compare the status with the expected one."""
        started = time.monotonic()
        result = await self.client.call_tool(
            tool, arguments, progress_callback=self._progress, read_timeout_seconds=seconds
        )
        if self.show.interactive:
            print("\r\033[K", end="")
        report: dict[str, Any] = dict(result.structured_content or {})
        status = str(report.get("status"))
        mark = "" if status == expected else f"   <- expected {expected}"
        print(f"  {tool:26} {status:12} {time.monotonic() - started:5.1f}s  {_summary(report)}{mark}")
        for finding in report.get("findings", ()):
            if finding["severity"] == "blocker" or status != expected:
                self.show.line(f"{finding['severity']} {finding['code']}: {finding['message'][:160]}")
            if finding["severity"] == "blocker" and status != expected:
                self.show.line(f"fix: {finding['fix']}")
        for need in report.get("unmet", ()):
            self.show.line(f"needs {need['tool']} ({need['why']}): {need['detail']}")
        if status != expected:
            raise Unexpected(f"{tool} was {status}, not {expected}")
        return report

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress / total:4.0%}" if total else "    "
        if self.show.interactive:
            print(f"\r\033[K    {share} {(message or '')[:90]}", end="", flush=True)
        elif time.monotonic() - self.show.told > QUIET_SECONDS:
            self.show.told = time.monotonic()
            self.show.line(f"{share} {(message or '')[:90]}")

    async def states(self) -> dict[str, str]:
        """State of each tool's evidence for the demo's environment: proven, stale, never-run, ..."""
        report = await self.call("workflow_status", "passed", environment=NAME)
        evidence: list[Mapping[str, Any]] = report["data"]["environments"][0]["evidence"]
        return {entry["tool"]: entry["state"] for entry in evidence}


def demo(keep: str | None = None, era: Era = "auto") -> int:
    """Run the whole workflow and return the exit code. Era `legacy` is the older protocol.

    Raises BadInput for a folder to keep that cannot be made or is not empty: the demo begins without evidence.
    """
    with tempfile.TemporaryDirectory(prefix="prime-lab-demo-") as scratch:
        home = _empty_folder(Path(keep).expanduser().resolve()) if keep else Path(scratch)
        workspace, state = home / "workspace", home / "state"
        workspace.mkdir()
        show = Show()
        print(
            "prime-lab-mcp demo: the whole workflow in rehearsal. The platform is a stand-in on this machine: no"
            " account, no spend; only the package index is used."
        )
        try:
            anyio.run(_walk, workspace, state, show, era)
        except Exception as error:  # any exception means that the demo failed
            show.wrong.extend(_reasons(error))
        seconds = time.monotonic() - show.started
    if show.wrong:
        print(f"\nThe demo FAILED after {seconds:.0f} s:")
        for what in show.wrong:
            print(f"  - {what}")
        return 1
    print(f"\nThe demo walked the whole workflow in {seconds:.0f} s; everything came out as expected.")
    return 0


def _empty_folder(folder: Path) -> Path:
    fix = "Name a new or an empty folder with --keep."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadInput(f"the folder {folder} is not empty", fix=fix)
    except OSError as error:
        raise BadInput(f"the folder {folder} cannot be used: {error.strerror}", fix=fix) from error
    return folder


def _summary(report: Mapping[str, Any]) -> str:
    return str(report.get("summary")).removesuffix(LABEL)


def _reasons(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [reason for inner in error.exceptions for reason in _reasons(inner)]
    return [str(error) if isinstance(error, Unexpected) else f"{type(error).__name__}: {error}"]


@asynccontextmanager
async def _connected(workspace: Path, state: Path, show: Show, era: Era) -> AsyncIterator[Client]:
    async def answer(context: Any, params: Any) -> ElicitResult:
        question, _, config = params.message.partition("\n\n")
        show.line(f"the user is asked: {question}")
        if config:
            show.line(f"(and is shown the config, {len(config.splitlines())} lines)")
        show.line("the user says yes")
        return ElicitResult(action="accept", content={"approve": True})

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(workspace), "--state-dir", str(state)],
        env=dict(os.environ),  # clients pass few variables; builds need the index and proxy settings
    )
    async with Client(stdio_client(server), mode=era, elicitation_callback=answer) as client:
        yield client


async def _walk(workspace: Path, state: Path, show: Show, era: Era) -> None:
    write_problems(workspace / "harvest.jsonl", 160)
    async with _connected(workspace, state, show, era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        show.say(f"Connected over stdio ({client.protocol_version}); {len(tools)} tools.")
        walk = Walk(client, show)
        if importlib.util.find_spec("verifiers") is None:
            show.say("verifiers, datasets and prime are not installed beside this server: they are installed first.")
            await walk.call("preflight", "passed", seconds=INSTALL_SECONDS, install=True)
        await _build(walk)
        await _prove(walk)
        await _break_and_mend(walk, workspace)
        await _publish_and_train(walk)


async def _build(walk: Walk) -> None:
    walk.show.say("Look at the data and make an environment of it.")
    await walk.call("preflight", "passed")
    inspected = await walk.call("inspect_dataset", "passed", dataset="harvest.jsonl")
    answer = inspected["data"]["answer"]
    walk.show.line(f"answers: column {answer['path']}, format {answer['format']}")
    await walk.call("create_environment", "passed", name=NAME, dataset="harvest.jsonl")
    walk.show.say("An agent in a hurry submits right away, and is refused with everything that is missing.")
    await walk.call("submit_training", "blocked", environment=NAME, model=MODEL)


async def _prove(walk: Walk) -> None:
    walk.show.say("Prove it, step by step.")
    await walk.call("check_environment", "passed", environment=NAME)
    tested = await walk.call("test_reward", "passed", environment=NAME)
    walk.show.line(f"gold pass rate {tested['data'].get('gold_pass_rate')} over {tested['data'].get('cases')} cases")
    evaluated = await walk.call(
        "run_eval", "passed", environment=NAME, model=MODEL, num_examples=40, rollouts=4, wait_seconds=180
    )
    usable = evaluated["data"].get("distribution", {}).get("usable_groups")
    walk.show.line(f"mean reward {evaluated['data'].get('mean_reward')}, usable groups {usable}")
    await walk.call("check_reward_distribution", "passed", environment=NAME)


async def _break_and_mend(walk: Walk, workspace: Path) -> None:
    walk.show.say("Break the reward: the evidence that rests on it goes stale, and the test finds the flaw.")
    before = await walk.states()
    path, sound, flawed = _flaw(workspace)
    edited = await walk.call("edit_environment", "passed", environment=NAME, path=path, old=sound, new=flawed)
    walk.show.line(f"stale now: {', '.join(edited['data'].get('stale', ()))}")
    during = await walk.states()
    dependent = {"check_environment", "test_reward", "check_reward_distribution"}
    walk.show.expect(
        "exactly the dependent evidence is stale", {t for t, s in during.items() if s == "stale"} == dependent
    )
    await walk.call("test_reward", "failed", environment=NAME)
    await walk.call("push_environment", "blocked", environment=NAME)
    walk.show.say("Mend it by undoing the edit: the old evidence is good again, nothing has to be paid twice.")
    mended = await walk.call("edit_environment", "passed", environment=NAME, path=path, old=flawed, new=sound)
    walk.show.line(f"proven again: {', '.join(mended['data'].get('proven_again', ()))}")
    walk.show.expect("the evidence is as it was before the edit", await walk.states() == before)


def _flaw(workspace: Path) -> tuple[str, str, str]:
    """A line of the generated reward, and the same line changed so that wrong answers are rewarded."""
    folder = workspace / "environments" / NAME.replace("-", "_")
    path = next(folder.glob("*/taskset.py"))
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip().startswith("return score(")]
    sound = lines[0]
    flawed = sound[: len(sound) - len(sound.lstrip())] + "return 1.0  # pays for everything"
    return path.relative_to(folder).as_posix(), sound, flawed


async def _publish_and_train(walk: Walk) -> None:
    walk.show.say("Publish what was proven, then train on what was published.")
    pushed = (await walk.call("push_environment", "passed", environment=NAME, visibility="PRIVATE"))["data"]
    source = f"{pushed.get('owner')}/{pushed.get('name')}@{pushed.get('version')}"
    walk.show.line(f"the Hub holds {source}, verified by: {pushed.get('verified')}")
    written = await walk.call(
        "write_training_config", "passed", environments=[source], model=MODEL, steps=20, batch=64, group=16
    )
    path = written["data"]["path"]
    await walk.call("check_training_config", "passed", path=path)
    walk.show.say("The held-out tasks are scored by the same reward, which is tested on them too.")
    await walk.call("test_reward", "passed", environment=NAME, env_args={"split": "eval"})
    submitted = (await walk.call("submit_training", "passed", config=path))["data"]
    again = (await walk.call("submit_training", "passed", config=path))["data"]
    walk.show.expect("submitting again returns the same run", again.get("id") == submitted.get("id"))
    walk.show.say("Watch the run to its end.")
    with anyio.fail_after(90):
        while True:
            watched = await _watch(walk, submitted["id"])
            if watched["status"] != "running":
                break
            await anyio.sleep(2)
    walk.show.expect("the run completed", watched["status"] == "passed")
    await walk.call("workflow_status", "passed")


async def _watch(walk: Walk, id: str) -> dict[str, Any]:
    result = await walk.client.call_tool("watch_run", {"id": id})
    report: dict[str, Any] = dict(result.structured_content or {})
    data = report.get("data", {})
    print(f"  {'watch_run':26} {report.get('status')!s:12}        {_summary(report)}")
    if data.get("anomalies"):
        walk.show.line(f"anomalies: {[a['code'] for a in data['anomalies']]}")
    return report
