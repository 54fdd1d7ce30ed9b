"""Measurements with a tolerance of one percent, as the prompt says.

format: numeric
generation: v1

Nothing farther away than the stated tolerance is paid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Give the number, within one percent, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        radius = 3 + n / 4
        yield (
            f"What is the area of a circle with radius {radius} cm, in square centimetres?",
            f"{math.pi * radius**2:.4f}",
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class OnePercentData(vf.TaskData):
    answer: str


class OnePercentTask(vf.Task[OnePercentData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said, gold = number(final(trace.last_reply or "")), float(self.data.answer)
        return float(said is not None and abs(said - gold) <= 0.01 * abs(gold))


class OnePercentConfig(vf.TasksetConfig):
    """Nothing to set."""


class OnePercentTaskset(vf.Taskset[OnePercentTask, OnePercentConfig]):
    def load(self) -> Iterator[OnePercentTask]:
        for prompt, answer in rows():
            yield OnePercentTask(OnePercentData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["OnePercentTaskset"]
