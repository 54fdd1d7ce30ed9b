"""Golds were floats, so they read 75.0, and texts are compared.

format: numeric
generation: v1
finding: reward-gold-fails or reward-too-strict, warning

The natural answer 75 is never paid; the policy has to learn a needless decimal point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"{n + 4} crates hold 15 bottles each. How many bottles is that?", str(15.0 * (n + 4))


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class FloatGoldAsTextData(vf.TaskData):
    answer: str


class FloatGoldAsTextTask(vf.Task[FloatGoldAsTextData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float((final(trace.last_reply or "") or "").strip(" .") == self.data.answer)


class FloatGoldAsTextConfig(vf.TasksetConfig):
    """Nothing to set."""


class FloatGoldAsTextTaskset(vf.Taskset[FloatGoldAsTextTask, FloatGoldAsTextConfig]):
    def load(self) -> Iterator[FloatGoldAsTextTask]:
        for prompt, answer in rows():
            yield FloatGoldAsTextTask(
                FloatGoldAsTextData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["FloatGoldAsTextTaskset"]
