"""Allows twenty percent either way for a count.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

A rough guess is paid like the exact count that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Solve the problem. End your reply with the answer as a number."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield (
            f"A bus with {n + 12} riders makes {n % 7 + 2} trips a day. How many rides is that?",
            str((n + 12) * (n % 7 + 2)),
        )


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class WideToleranceData(vf.TaskData):
    answer: str


class WideToleranceTask(vf.Task[WideToleranceData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number((trace.last_reply or "").split("=")[-1].split()[-1] if (trace.last_reply or "").split() else None)
        gold = float(self.data.answer)
        return float(said is not None and abs(said - gold) <= 0.2 * abs(gold))


class WideToleranceConfig(vf.TasksetConfig):
    """Nothing to set."""


class WideToleranceTaskset(vf.Taskset[WideToleranceTask, WideToleranceConfig]):
    def load(self) -> Iterator[WideToleranceTask]:
        for prompt, answer in rows():
            yield WideToleranceTask(
                WideToleranceData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["WideToleranceTaskset"]
