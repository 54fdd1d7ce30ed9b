"""Digits in the right place earn a little.

format: numeric
generation: v1

A wrong number earns at most 0.25, and lists of numbers nothing, because only one answer counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Solve the problem and put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield (
            f"A bus with {n + 12} riders makes {n % 7 + 2} trips a day. How many rides is that?",
            str((n + 12) * (n % 7 + 2)),
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


class DigitsShareData(vf.TaskData):
    answer: str


class DigitsShareTask(vf.Task[DigitsShareData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "")
        exact = number(said)
        if exact is None or said is None:
            return 0.0
        if exact == float(self.data.answer):
            return 1.0
        digits, gold = str(abs(int(exact))), self.data.answer
        same = sum(left == right for left, right in zip(digits, gold, strict=False))
        return 0.25 * same / len(gold) if len(digits) == len(gold) and exact > 0 else 0.0


class DigitsShareConfig(vf.TasksetConfig):
    """Nothing to set."""


class DigitsShareTaskset(vf.Taskset[DigitsShareTask, DigitsShareConfig]):
    def load(self) -> Iterator[DigitsShareTask]:
        for prompt, answer in rows():
            yield DigitsShareTask(DigitsShareData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["DigitsShareTaskset"]
