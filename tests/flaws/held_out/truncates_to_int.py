"""Turns both numbers into integers before comparing.

format: numeric
generation: v1
finding: reward-wrong-passes, blocker

Everything from 42 to 42.99 is 42, so prices and measures lose their decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield (
            f"A rope of {7 * n + 13} metres is cut into 8 equal parts. How long is each, in metres?",
            str((7 * n + 13) / 8),
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


class TruncatesToIntData(vf.TaskData):
    answer: str


class TruncatesToIntTask(vf.Task[TruncatesToIntData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        return float(said is not None and int(said) == int(float(self.data.answer)))


class TruncatesToIntConfig(vf.TasksetConfig):
    """Nothing to set."""


class TruncatesToIntTaskset(vf.Taskset[TruncatesToIntTask, TruncatesToIntConfig]):
    def load(self) -> Iterator[TruncatesToIntTask]:
        for prompt, answer in rows():
            yield TruncatesToIntTask(
                TruncatesToIntData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["TruncatesToIntTaskset"]
