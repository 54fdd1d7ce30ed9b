"""The weight of correctness has the wrong sign.

format: numeric
generation: v1
finding: reward-gold-fails or reward-wrong-passes or gold-not-understood, blocker

Right answers cost and wrong ones are free, so the policy learns to be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


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


class NegativeWeightData(vf.TaskData):
    answer: str


class NegativeWeightTask(vf.Task[NegativeWeightData]):
    @vf.reward(weight=-1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) == float(self.data.answer))

    @vf.reward(weight=1.0)
    async def form(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) is not None)


class NegativeWeightConfig(vf.TasksetConfig):
    """Nothing to set."""


class NegativeWeightTaskset(vf.Taskset[NegativeWeightTask, NegativeWeightConfig]):
    def load(self) -> Iterator[NegativeWeightTask]:
        for prompt, answer in rows():
            yield NegativeWeightTask(
                NegativeWeightData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["NegativeWeightTaskset"]
