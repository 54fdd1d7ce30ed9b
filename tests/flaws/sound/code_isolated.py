"""Programs tested in a process of their own.

format: code
generation: v1

The child gets inputs only; expected values stay outside, and results count with the token of the call.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
import sys
import tempfile
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


def graded(code: str, tests: list[str]) -> bool:
    """Whether a program passes every test, in a process of its own.

    The program defines functions in a child that answers calls over a pipe of JSON; expected values never enter it, and
    an answer counts only when it comes with the call's own token.
    """
    child = (
        "import json,os,sys\n"
        "ask=json.loads(sys.stdin.readline());out=os.dup(1);os.dup2(2,1)\n"
        "space={'__name__':'candidate'};exec(ask['code'],space)\n"
        "os.write(out,json.dumps([[ask['token'],space['transform'](x)] for x in ask['inputs']]).encode())\n"
    )
    pairs = [re.fullmatch(r"assert transform\((-?\d+)\) == (-?\d+)", test) for test in tests]
    token = secrets.token_hex(16)
    ask = {"code": code, "token": token, "inputs": [int(pair[1]) for pair in pairs if pair]}
    with tempfile.TemporaryDirectory(prefix="candidate-") as folder:
        try:
            ended = subprocess.run(
                [sys.executable, "-I", "-c", child], input=json.dumps(ask) + "\n", capture_output=True, text=True,
                timeout=4, check=False, cwd=folder, env={},
            )
            said = json.loads(ended.stdout)
        except (subprocess.TimeoutExpired, ValueError, UnicodeDecodeError):
            return False
    wanted = [[token, int(pair[2])] for pair in pairs if pair]
    return ended.returncode == 0 and said == wanted and all(type(answer) is int for _, answer in said)


class CodeIsolatedData(vf.TaskData):
    tests: list[str]
    solution: str


class CodeIsolatedTask(vf.Task[CodeIsolatedData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        code = program(trace.last_reply or "")
        return float(code is not None and await asyncio.to_thread(graded, code, self.data.tests))


class CodeIsolatedConfig(vf.TasksetConfig):
    """Nothing to set."""


class CodeIsolatedTaskset(vf.Taskset[CodeIsolatedTask, CodeIsolatedConfig]):
    def load(self) -> Iterator[CodeIsolatedTask]:
        for prompt, tests, solution in rows():
            yield CodeIsolatedTask(
                CodeIsolatedData(prompt=prompt, system_prompt=SYSTEM, tests=tests, solution=solution), self.config.task
            )


__all__ = ["CodeIsolatedTaskset"]
