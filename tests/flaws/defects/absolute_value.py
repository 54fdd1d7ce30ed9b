"""Compares absolute values to be safe about signs.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

Minus eight and eight degrees are the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work it out and give the temperature in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        start, drop = n % 19 - 9, n % 23 + 3
        yield (
            f"At noon it was {start} degrees; by night it was {drop} degrees colder. How cold was it then?",
            str(start - drop),
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


class AbsoluteValueData(vf.TaskData):
    answer: str


class AbsoluteValueTask(vf.Task[AbsoluteValueData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        return float(said is not None and abs(abs(said) - abs(float(self.data.answer))) < 1e-6)


class AbsoluteValueConfig(vf.TasksetConfig):
    """Nothing to set."""


class AbsoluteValueTaskset(vf.Taskset[AbsoluteValueTask, AbsoluteValueConfig]):
    def load(self) -> Iterator[AbsoluteValueTask]:
        for prompt, answer in rows():
            yield AbsoluteValueTask(
                AbsoluteValueData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["AbsoluteValueTaskset"]
