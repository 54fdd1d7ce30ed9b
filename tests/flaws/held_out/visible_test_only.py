"""Runs only one of the tests.

format: code
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

A function that always returns the one expected value passes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Solve the task in Python. Put the program in one ```python block."


def rows() -> Iterator[tuple[str, list[str], str]]:
    for n in range(100):
        a, b = n % 10 + 2, n // 10 + 1
        tests = [f"assert transform({x}) == {a * x + b}" for x in (0, 3, -4, 10)]
        asked = f"Write a Python function transform(x) that multiplies x by {a} and then adds {b}."
        yield asked, tests, f"def transform(x):\n    return {a} * x + {b}"


def program(reply: str) -> str | None:
    """The one code block of a reply."""
    found = re.findall(r"```(?:python)?\n(.*?)```", reply.rpartition("</think>")[2], re.S)
    return found[0] if len(found) == 1 else None


class VisibleTestOnlyData(vf.TaskData):
    tests: list[str]
    solution: str


class VisibleTestOnlyTask(vf.Task[VisibleTestOnlyData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        code = program(trace.last_reply or "")
        if code is None:
            return 0.0
        child = "import json,sys\nask=json.loads(sys.stdin.readline())\nspace={}\nexec(ask, space)\nprint(json.dumps(space['transform'](3)))"
        try:
            ended = subprocess.run([sys.executable, "-I", "-c", child], input=json.dumps(code) + "\n", capture_output=True,
                                   text=True, timeout=4, check=False)
        except subprocess.TimeoutExpired:
            return 0.0
        return float(ended.stdout.strip() == self.data.tests[1].rpartition("== ")[2])


class VisibleTestOnlyConfig(vf.TasksetConfig):
    """Nothing to set."""


class VisibleTestOnlyTaskset(vf.Taskset[VisibleTestOnlyTask, VisibleTestOnlyConfig]):
    def load(self) -> Iterator[VisibleTestOnlyTask]:
        for prompt, tests, solution in rows():
            yield VisibleTestOnlyTask(
                VisibleTestOnlyData(prompt=prompt, system_prompt=SYSTEM, tests=tests, solution=solution),
                self.config.task,
            )


__all__ = ["VisibleTestOnlyTaskset"]
