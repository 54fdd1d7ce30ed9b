"""Takes every value above 1 for a percentage.

format: numeric
generation: v1
finding: reward-gold-fails, blocker

Factors above 1 can never be paid, because the right answer is divided by a hundred first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Give the factor as a decimal number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield (
            f"A town of 10000 people now has {5000 + 100 * n} people. By what factor did it change?",
            str((50 + n) / 100),
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


class PercentGuessData(vf.TaskData):
    answer: str


class PercentGuessTask(vf.Task[PercentGuessData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        if said is None:
            return 0.0
        return float(abs((said / 100 if said > 1 else said) - float(self.data.answer)) < 1e-6)


class PercentGuessConfig(vf.TasksetConfig):
    """Nothing to set."""


class PercentGuessTaskset(vf.Taskset[PercentGuessTask, PercentGuessConfig]):
    def load(self) -> Iterator[PercentGuessTask]:
        for prompt, answer in rows():
            yield PercentGuessTask(
                PercentGuessData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["PercentGuessTaskset"]
