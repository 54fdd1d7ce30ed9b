"""A program that reads and prints, run apart for each hidden input.

format: code
generation: v1

The program runs in an isolated interpreter of its own, in an empty directory, with limits; it sees the input only,
and has to print every expected line, no more and no fewer, for all inputs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import verifiers.v1 as vf

SYSTEM = (
    "Solve the task in Python. The program reads standard input and writes standard output. Put the whole program in "
    "one ```python block."
)


START = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (4, 4))
runpy.run_path("program.py", run_name="__main__")
"""
INPUTS = ("3 8 -6 0 12 5\n", "7\n", "-9 4 4 10 15 21 30\n")


def rows() -> Iterator[tuple[str, list[str], list[str], str]]:
    for n in range(64):
        divisor, bonus = n % 8 + 2, n // 8 * 3 + 1
        expected = []
        for text in INPUTS:
            fitting = [int(word) for word in text.split() if int(word) % divisor == 0]
            expected.append(f"{len(fitting)}\n{sum(fitting) + bonus}\n")
        solution = (
            f"fitting = [int(word) for word in input().split() if int(word) % {divisor} == 0]\n"
            f"print(len(fitting))\nprint(sum(fitting) + {bonus})"
        )
        asked = (
            f"Read one line of integers. Print on a first line how many of them are multiples of {divisor}, and on a "
            f"second line the sum of these multiples plus {bonus}."
        )
        yield asked, list(INPUTS), expected, solution


def program(reply: str) -> str | None:
    """The one code block of a reply."""
    found = re.findall(r"```(?:python)?\n(.*?)```", reply.rpartition("</think>")[2], re.S)
    return found[0] if len(found) == 1 else None


def printed(code: str, given: str) -> str | None:
    """What a program prints for an input; None when it fails or does not end in time."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, tempfile.TemporaryFile() as output:
        Path(place, "program.py").write_bytes(code.encode("utf-8", "replace"))
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", START],
            cwd=place,
            env={"PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate(given.encode(), timeout=6)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return output.read(100_000).decode("utf-8", "replace") if process.returncode == 0 else None


def lines(text: str) -> list[str]:
    """The lines of an output, without trailing white space."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def passes(code: str, inputs: list[str], expected: list[str]) -> bool:
    """Whether a program prints what it should for every input."""
    for given, wanted in zip(inputs, expected, strict=True):
        output = printed(code, given)
        if output is None or lines(output) != lines(wanted):
            return False
    return True


class StdoutLinesData(vf.TaskData):
    inputs: list[str]
    expected: list[str]
    solution: str


class StdoutLinesTask(vf.Task[StdoutLinesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        code = program(trace.last_reply or "")
        if code is None:
            return 0.0
        return float(await asyncio.to_thread(passes, code, self.data.inputs, self.data.expected))


class StdoutLinesConfig(vf.TasksetConfig):
    """Nothing to set."""


class StdoutLinesTaskset(vf.Taskset[StdoutLinesTask, StdoutLinesConfig]):
    def load(self) -> Iterator[StdoutLinesTask]:
        for prompt, inputs, expected, solution in rows():
            yield StdoutLinesTask(
                StdoutLinesData(
                    prompt=prompt, system_prompt=SYSTEM, inputs=inputs, expected=expected, solution=solution
                ),
                self.config.task,
            )


__all__ = ["StdoutLinesTaskset"]
