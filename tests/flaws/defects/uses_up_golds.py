"""Crosses named items off the task's own list.

format: multi_answer
generation: v1
finding: reward-order-dependent or reward-mutates, blocker

The task's gold shrinks with every reply, so later rollouts of the group are judged by another list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "List all of them, separated by commas, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, list[str]]]:
    for n in range(24, 124):
        yield (
            f"Which whole numbers above 1 divide {n} (with {n} itself)?",
            [str(d) for d in range(2, n + 1) if n % d == 0],
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class UsesUpGoldsData(vf.TaskData):
    answer: list[str]


class UsesUpGoldsTask(vf.Task[UsesUpGoldsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = [part.strip() for part in (final(trace.last_reply or "") or "").split(",")]
        wanted = len(self.data.answer)
        for part in said:
            if part in self.data.answer:
                self.data.answer.remove(part)
        return float(not self.data.answer and len(said) == wanted)


class UsesUpGoldsConfig(vf.TasksetConfig):
    """Nothing to set."""


class UsesUpGoldsTaskset(vf.Taskset[UsesUpGoldsTask, UsesUpGoldsConfig]):
    def load(self) -> Iterator[UsesUpGoldsTask]:
        for prompt, answer in rows():
            yield UsesUpGoldsTask(UsesUpGoldsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["UsesUpGoldsTaskset"]
