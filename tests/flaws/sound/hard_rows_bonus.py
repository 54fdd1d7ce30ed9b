"""Hard rows pay half as much again.

format: numeric
generation: v1

A right answer to a hard row earns 1.5, to an easy one 1; a wrong one earns nothing anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Answer with the number alone in <answer></answer> tags.'


def rows() -> Iterator[tuple[str, str, str]]:
    for n in range(100):
        hard = n % 4 == 0
        first, second = (137 * n + 211, 89 * n + 523) if hard else (n + 12, 2 * n + 5)
        yield f"What is {first} plus {second}?", str(first + second), "hard" if hard else "easy"


def final(reply: str) -> str:
    """The one answer outside of thinking."""
    found = re.findall(r"<answer>([^<]*)</answer>", reply.rpartition("</think>")[2].partition("<think>")[0])
    return found[0].strip().rstrip(".").replace(",", "") if len(found) == 1 else ""



class HardRowsBonusData(vf.TaskData):
    answer: str
    level: str


class HardRowsBonusTask(vf.Task[HardRowsBonusData]):
    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "")
        right = re.fullmatch(r"[0-9]{1,9}(\.0+)?", said) is not None and float(said) == float(self.data.answer)
        return (1.5 if self.data.level == "hard" else 1.0) if right else 0.0



class HardRowsBonusConfig(vf.TasksetConfig):
    """Nothing to set."""


class HardRowsBonusTaskset(vf.Taskset[HardRowsBonusTask, HardRowsBonusConfig]):
    def load(self) -> Iterator[HardRowsBonusTask]:
        for prompt, answer, level in rows():
            data = HardRowsBonusData(prompt=prompt, system_prompt=SYSTEM, answer=answer, level=level)
            yield HardRowsBonusTask(data, self.config.task)


__all__ = ["HardRowsBonusTaskset"]
