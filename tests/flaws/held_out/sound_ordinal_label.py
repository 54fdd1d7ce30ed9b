"""Some credit for the neighbouring level, and a small one for the form.

format: label
generation: v1

The level itself earns all, a neighbour two fifths of nine tenths and the form one tenth; the form alone needs a
level that exists, and no single level pays over all tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "Rate the wind as calm (under 10 km/h), breezy (10 to 29), strong (30 to 59) or stormy (60 and more). Put the "
    "level in <answer></answer> tags. A neighbouring level earns some credit."
)


LEVELS = ("calm", "breezy", "strong", "stormy")
PLACES = ("harbour", "ridge", "airfield", "lighthouse", "valley")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        level = n % 4
        low, width = ((1, 9), (10, 20), (30, 30), (60, 60))[level]
        yield f"Reading {n + 1}, {PLACES[n % 5]}: {low + (7 * n) % width} km/h.", LEVELS[level]


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def level(reply: str) -> int | None:
    """The place of the named level; None for anything else."""
    said = (final(reply) or "").lower().rstrip(".")
    return LEVELS.index(said) if said in LEVELS else None


class OrdinalLabelData(vf.TaskData):
    answer: str


class OrdinalLabelTask(vf.Task[OrdinalLabelData]):
    @vf.reward(weight=0.9)
    async def close(self, trace: vf.Trace) -> float:
        said = level(trace.last_reply or "")
        if said is None:
            return 0.0
        return {0: 1.0, 1: 0.4}.get(abs(said - LEVELS.index(self.data.answer)), 0.0)

    @vf.reward(weight=0.1)
    async def well_formed(self, trace: vf.Trace) -> float:
        return float(level(trace.last_reply or "") is not None)


class OrdinalLabelConfig(vf.TasksetConfig):
    """Nothing to set."""


class OrdinalLabelTaskset(vf.Taskset[OrdinalLabelTask, OrdinalLabelConfig]):
    def load(self) -> Iterator[OrdinalLabelTask]:
        for prompt, answer in rows():
            yield OrdinalLabelTask(
                OrdinalLabelData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["OrdinalLabelTaskset"]
