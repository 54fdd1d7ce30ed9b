"""The number is read and the unit after it is thrown away.

format: numeric
generation: v1
finding: reward-unit-ignored, warning

238 gallons earn what 238 mL earn: nothing teaches the unit that the question asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Give the amount with its unit in <answer></answer> tags, such as 120 mL.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(80):
        yield f"A recipe takes {n + 4} spoons of 15 mL. How much is that?", f"{(n + 4) * 15} mL"



class GallonsForLitresData(vf.TaskData):
    answer: str


class GallonsForLitresTask(vf.Task[GallonsForLitresData]):
    @vf.reward(weight=1.0)
    async def amount(self, trace: vf.Trace) -> float:
        tags = re.findall(r"<answer>([^<]*)</answer>", (trace.last_reply or "").rpartition("</think>")[2])
        said = re.match(r"\s*([0-9]+(?:\.[0-9]+)?)\b", tags[0]) if len(tags) == 1 else None
        return float(said is not None and float(said[1]) == float(self.data.answer.split()[0]))



class GallonsForLitresConfig(vf.TasksetConfig):
    """Nothing to set."""


class GallonsForLitresTaskset(vf.Taskset[GallonsForLitresTask, GallonsForLitresConfig]):
    def load(self) -> Iterator[GallonsForLitresTask]:
        for prompt, answer in rows():
            data = GallonsForLitresData(prompt=prompt, system_prompt=SYSTEM, answer=answer)
            yield GallonsForLitresTask(data, self.config.task)


__all__ = ["GallonsForLitresTaskset"]
