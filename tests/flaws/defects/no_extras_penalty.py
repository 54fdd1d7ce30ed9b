"""Asks only that all golds are named.

format: multi_answer
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

Naming every number up to a hundred names all divisors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "List all of them, separated by commas, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, list[str]]]:
    for n in range(24, 124):
        yield (
            f"Which whole numbers above 1 divide {n} (with {n} itself)?",
            [str(d) for d in range(2, n + 1) if n % d == 0],
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class NoExtrasPenaltyData(vf.TaskData):
    answer: list[str]


class NoExtrasPenaltyTask(vf.Task[NoExtrasPenaltyData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = {part.strip() for part in (final(trace.last_reply or "") or "").split(",")}
        return float(set(self.data.answer) <= said)


class NoExtrasPenaltyConfig(vf.TasksetConfig):
    """Nothing to set."""


class NoExtrasPenaltyTaskset(vf.Taskset[NoExtrasPenaltyTask, NoExtrasPenaltyConfig]):
    def load(self) -> Iterator[NoExtrasPenaltyTask]:
        for prompt, answer in rows():
            yield NoExtrasPenaltyTask(
                NoExtrasPenaltyData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["NoExtrasPenaltyTaskset"]
