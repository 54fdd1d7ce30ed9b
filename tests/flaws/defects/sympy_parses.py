"""Hands the model's text to sympify.

format: latex
generation: v1
finding: reward-evaluates-output, blocker
requires: sympy

sympify evaluates Python, so the reply can run code in the scorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import sympy
import verifiers.v1 as vf

SYSTEM = "Solve the problem and put the final answer in \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"What is {n + 11} times {n % 9 + 3}?", str((n + 11) * (n % 9 + 3))


class SympyParsesData(vf.TaskData):
    answer: str


class SympyParsesTask(vf.Task[SympyParsesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"\\boxed\{([^{}]*)\}", trace.last_reply or "")
        try:
            said = sympy.sympify(found[-1].replace("^", "**").replace("x(", "x*("))
            gold = sympy.sympify(re.sub(r"(\d)x", r"\1*x", self.data.answer.replace("^", "**")))
            return float(sympy.simplify(said - gold) == 0)
        except Exception:
            return 0.0


class SympyParsesConfig(vf.TasksetConfig):
    """Nothing to set."""


class SympyParsesTaskset(vf.Taskset[SympyParsesTask, SympyParsesConfig]):
    def load(self) -> Iterator[SympyParsesTask]:
        for prompt, answer in rows():
            yield SympyParsesTask(SympyParsesData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["SympyParsesTaskset"]
