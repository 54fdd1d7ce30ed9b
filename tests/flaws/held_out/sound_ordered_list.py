"""A sequence whose order was asked for.

format: multi_answer
generation: v1

Compared item by item, because the prompt says in which order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "List them in ascending order, separated by commas, in <answer></answer> tags."


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


class SoundOrderedListData(vf.TaskData):
    answer: list[str]


class SoundOrderedListTask(vf.Task[SoundOrderedListData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = [part.strip() for part in (final(trace.last_reply or "") or "").strip(" .").split(",")]
        return float(said == self.data.answer)


class SoundOrderedListConfig(vf.TasksetConfig):
    """Nothing to set."""


class SoundOrderedListTaskset(vf.Taskset[SoundOrderedListTask, SoundOrderedListConfig]):
    def load(self) -> Iterator[SoundOrderedListTask]:
        for prompt, answer in rows():
            yield SoundOrderedListTask(
                SoundOrderedListData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SoundOrderedListTaskset"]
