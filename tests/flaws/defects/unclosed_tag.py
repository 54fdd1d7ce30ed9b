"""Reads to the end of the reply when the tag is never closed.

format: numeric
generation: v1
finding: reward-ignores-format or reward-hackable, warning

A rollout that ran out of tokens in the middle of its answer is paid like a finished one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


class UnclosedTagData(vf.TaskData):
    answer: str


class UnclosedTagTask(vf.Task[UnclosedTagData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*(-?[\d,]+)\s*(?:</answer>|$)", trace.last_reply or "")
        return float(len(set(found)) == 1 and found[0].replace(",", "") == self.data.answer)


class UnclosedTagConfig(vf.TasksetConfig):
    """Nothing to set."""


class UnclosedTagTaskset(vf.Taskset[UnclosedTagTask, UnclosedTagConfig]):
    def load(self) -> Iterator[UnclosedTagTask]:
        for prompt, answer in rows():
            yield UnclosedTagTask(UnclosedTagData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["UnclosedTagTaskset"]
