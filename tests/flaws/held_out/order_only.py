"""Checks that a list is sorted, not that it is the list.

format: procedural
generation: v1
finding: reward-wrong-passes or reward-hackable, blocker

Any ascending list of the right length is paid: 1, 2, 3 and so on does for every task.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Sort the numbers in ascending order. Put them, separated by commas, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        draw = random.Random(n)
        numbers = draw.sample(range(-50, 200), 5 + n % 4)
        yield f"Sort these: {', '.join(map(str, numbers))}", ", ".join(map(str, sorted(numbers)))


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def integers(text: str | None) -> list[int] | None:
    """The integers of a list by comma."""
    parts = [part.strip() for part in (text or "").split(",")]
    return [int(part) for part in parts] if all(re.fullmatch(r"-?[0-9]{1,9}", part) for part in parts) else None


class OrderOnlyData(vf.TaskData):
    answer: str


class OrderOnlyTask(vf.Task[OrderOnlyData]):
    @vf.reward(weight=1.0)
    async def is_sorted(self, trace: vf.Trace) -> float:
        said = integers(final(trace.last_reply or ""))
        if said is None or len(said) != self.data.answer.count(",") + 1:
            return 0.0
        return float(all(left <= right for left, right in zip(said, said[1:], strict=False)))


class OrderOnlyConfig(vf.TasksetConfig):
    """Nothing to set."""


class OrderOnlyTaskset(vf.Taskset[OrderOnlyTask, OrderOnlyConfig]):
    def load(self) -> Iterator[OrderOnlyTask]:
        for prompt, answer in rows():
            yield OrderOnlyTask(OrderOnlyData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["OrderOnlyTaskset"]
