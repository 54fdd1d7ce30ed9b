"""Lets math-verify judge the whole reply.

format: latex
generation: v1
finding: reward-evaluates-output or reward-hackable, warning
requires: math-verify

The product that was asked for verifies as its own result, so nothing has to be worked out.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from math_verify import parse, verify

SYSTEM = "Solve the problem and put the final answer in \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"Compute {n + 11} \\cdot {n % 9 + 3}.", str((n + 11) * (n % 9 + 3))


class UnevaluatedVerifiesData(vf.TaskData):
    answer: str


class UnevaluatedVerifiesTask(vf.Task[UnevaluatedVerifiesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        try:
            gold = parse(rf"\boxed{{{self.data.answer}}}", parsing_timeout=None)
            said = parse(trace.last_reply or "", parsing_timeout=None)
            return float(verify(gold, said, timeout_seconds=None))
        except Exception:
            return 0.0


class UnevaluatedVerifiesConfig(vf.TasksetConfig):
    """Nothing to set."""


class UnevaluatedVerifiesTaskset(vf.Taskset[UnevaluatedVerifiesTask, UnevaluatedVerifiesConfig]):
    def load(self) -> Iterator[UnevaluatedVerifiesTask]:
        for prompt, answer in rows():
            yield UnevaluatedVerifiesTask(
                UnevaluatedVerifiesData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["UnevaluatedVerifiesTaskset"]
