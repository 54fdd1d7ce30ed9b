"""Compares the printed lines with zip, which stops at the shorter list.

format: code
generation: v1
finding: reward-hackable, blocker

A program that prints nothing passes every case. The tasks hold inputs and outputs, and no program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Write a Python program that reads standard input. Put it in a ```python block."
RULES = {
    "doubled": lambda numbers: [2 * n for n in numbers],
    "squared": lambda numbers: [n * n for n in numbers],
    "sorted from the smallest on": sorted,
    "in the opposite order": lambda numbers: numbers[::-1],
}


class LinesData(vf.TaskData):
    examples: list[dict[str, str]]


class LinesTask(vf.Task[LinesData]):
    @vf.reward(weight=1.0)
    async def passed(self, trace: vf.Trace) -> float:
        found = re.findall(r"```python\n(.*?)```", trace.last_reply or "", re.DOTALL)
        if not found:
            return 0.0
        return sum(self.right(found[-1], case) for case in self.data.examples) / len(self.data.examples)

    @staticmethod
    def right(program: str, case: dict[str, str]) -> bool:
        command = [sys.executable, "-I", "-c", program]
        try:
            done = subprocess.run(command, input=case["given"], capture_output=True, text=True, timeout=5)
        except subprocess.TimeoutExpired:
            return False
        pairs = zip(done.stdout.splitlines(), case["wanted"].splitlines())
        return done.returncode == 0 and all(line.strip() == wanted for line, wanted in pairs)


class SilentProgramPassesTaskset(vf.Taskset[LinesTask, vf.TasksetConfig]):
    def load(self) -> Iterator[LinesTask]:
        for n in range(48):
            rule = list(RULES)[n % 4]
            shift = n // 4
            cases = []
            for k in (1, 2):
                numbers = [(7 * i * k + 3 * n) % 23 for i in range(3 + k)]
                wanted = [value + shift for value in RULES[rule](numbers)]
                cases.append({"given": "\n".join(map(str, numbers)), "wanted": "\n".join(map(str, wanted))})
            asked = f"Each line has one number. Print the numbers {rule}, then raised by {shift}, one per line."
            data = LinesData(prompt=asked, system_prompt=SYSTEM, examples=cases)
            yield LinesTask(data, self.config.task)


__all__ = ["SilentProgramPassesTaskset"]
