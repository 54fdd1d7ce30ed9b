"""Lines of a table in the right place, a third of the reward until all are right.

format: short_text
generation: v1

Partial credit for each right line; only the whole table is worth more than a third.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Put the lines, and nothing else, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield (
            f"Write the first four multiples of {n + 12}, one on each line.",
            "\n".join(str(k * (n + 12)) for k in range(1, 5)),
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class SoundLinesShareData(vf.TaskData):
    answer: str


class SoundLinesShareTask(vf.Task[SoundLinesShareData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = [line.strip() for line in (final(trace.last_reply or "") or "").strip().splitlines()]
        gold = self.data.answer.splitlines()
        same = sum(left == right for left, right in zip(said, gold, strict=False))
        return 1.0 if said == gold else same / len(gold) / 3 if len(said) == len(gold) else 0.0


class SoundLinesShareConfig(vf.TasksetConfig):
    """Nothing to set."""


class SoundLinesShareTaskset(vf.Taskset[SoundLinesShareTask, SoundLinesShareConfig]):
    def load(self) -> Iterator[SoundLinesShareTask]:
        for prompt, answer in rows():
            yield SoundLinesShareTask(
                SoundLinesShareData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SoundLinesShareTaskset"]
