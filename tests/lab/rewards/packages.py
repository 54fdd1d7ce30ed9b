"""Small environments that tests write to a workspace, and calls of tool bodies on them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools import check_environment, test_reward
from prime_lab_mcp.tools.tool import Call
from tests.support.packages import pyproject

README = (
    "# Marbles\n\nThe data set holds sums. Format: a number in answer tags. Reward: 1 when right. Usage: vf-eval.\n"
)
MODULE = """\
import asyncio
import math
import random
import re
import time

import verifiers.v1 as vf

SYSTEM = "Think, then put the number in <answer></answer> tags."


class Data(vf.TaskData):
    answer: str


def last(reply):
    found = re.findall(r"<answer>\\s*(.*?)\\s*</answer>", reply.split("</think>")[-1], re.S)
    return found[-1].replace(",", "") if found else None


def sound(reply, gold):
    said = last(reply)
    number = re.fullmatch(r"-?[0-9]{{1,20}}(\\.0+)?\\.?", said or "")
    return float(number is not None and float(said) == float(gold))


class Sums(vf.Task[Data]):
{body}

class Config(vf.TasksetConfig):
    size: int = 70


class Marbles(vf.Taskset[Sums, Config]):
    def load(self):
        for n in range(self.config.size):
            prompt = f"Ann has {{n}} red and {{3 * n + 7}} blue marbles. How many in all?"
            yield Sums(Data(prompt=prompt, system_prompt=SYSTEM, answer=str(4 * n + 7)), self.config.task)


__all__ = ["Marbles"]
"""


def reward(code: str, *, name: str = "correct", weight: float = 1.0, kind: str = "async def") -> str:
    """A reward method; `reply` and `gold` are the texts it compares."""
    head = f"@vf.reward(weight={weight})\n{kind} {name}(self, trace: vf.Trace):\n"
    body = textwrap.indent("reply, gold = trace.last_reply or '', self.data.answer\n" + textwrap.dedent(code), "    ")
    return textwrap.indent(head + body, "    ") + "\n\n"


SOUND = reward("return sound(reply, gold)")


def project(name: str, verifiers: str) -> str:
    return pyproject(name, description="Sums of marbles.", dependencies=[verifiers], tags=["single-turn"])


def write(lab: Lab, name: str, body: str, *, verifiers: str = "verifiers>=0.4.0,<0.5", **files: str) -> Path:
    """An environment package in the lab's workspace. `files` replaces or adds files (`README_md`, `pyproject_toml`)."""
    folder = lab.workspace.environments / name
    folder.mkdir(parents=True)
    contents = {
        f"{name}.py": MODULE.format(body=body),
        "pyproject.toml": project(name, verifiers),
        "README.md": README,
    }
    for path, text in contents.items():
        (folder / path).write_text(text, encoding="utf-8")
    for path, text in files.items():
        (folder / path.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


async def call(lab: Lab, name: str) -> Call:
    """What the call path hands to a tool body."""

    async def progress(done: float, total: float | None, message: str) -> None:
        return None

    async def prove(tool: str, snapshot: Snapshot) -> Report:
        raise AssertionError(f"{tool} was asked for")

    class NoReferences:
        def topics(self) -> list[tuple[str, str]]:
            return []

        def page(self, topic: str) -> str | None:
            return None

    return Call(lab, await lab.snapshot(name), progress, NoReferences(), prove)


async def check(lab: Lab, name: str) -> Outcome:
    return await check_environment.run(await call(lab, name), check_environment.Args(environment=name))


async def try_reward(lab: Lab, name: str, **arguments: Any) -> Outcome:
    args, made = test_reward.Args(environment=name, **arguments), await call(lab, name)
    return await test_reward.run(made, await test_reward.plan(made, args))


def codes(outcome: Outcome, severity: str = "blocker") -> set[str]:
    return {f.code for f in outcome.findings if f.severity == severity}
