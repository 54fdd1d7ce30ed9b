"""Correctness, form and a bounded length, weighted.

format: numeric
generation: v1

Form and brevity together weigh 0.15 and pay only beside an answer.
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


class SeveralComponentsData(vf.TaskData):
    answer: str


class SeveralComponentsTask(vf.Task[SeveralComponentsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) == float(self.data.answer))

    @vf.reward(weight=0.1)
    async def form(self, trace: vf.Trace) -> float:
        return float(number(final(trace.last_reply or "")) is not None)

    @vf.reward(weight=0.05)
    async def finished(self, trace: vf.Trace) -> float:
        return float((trace.last_reply or "").rstrip().endswith("</answer>"))

    @vf.metric
    async def words(self, trace: vf.Trace) -> float:
        return float(len((trace.last_reply or "").split()))


class SeveralComponentsConfig(vf.TasksetConfig):
    """Nothing to set."""


class SeveralComponentsTaskset(vf.Taskset[SeveralComponentsTask, SeveralComponentsConfig]):
    def load(self) -> Iterator[SeveralComponentsTask]:
        for prompt, answer in rows():
            yield SeveralComponentsTask(
                SeveralComponentsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SeveralComponentsTaskset"]
