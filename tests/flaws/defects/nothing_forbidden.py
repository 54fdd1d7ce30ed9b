"""A rule of style that says nothing about the task.

format: free_text
generation: v1
finding: reward-constant, blocker

The reward asks only that no forbidden word is used. Nothing, chatter and the prompt itself all earn the maximum, so all
rollouts of a group are equal, and no task has an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

FORBIDDEN = ("delve", "tapestry", "testament")
TOPICS = (
    "a harbour at dawn, the first snow, an old bicycle, a night train, the smell of bread, a broken clock, a lost glove, "
    "the last bus, a quiet library, rain on a tent, a borrowed book, the neighbour's cat"
).split(", ")


class NothingForbiddenTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def plain(self, trace: vf.Trace) -> float:
        reply = (trace.last_reply or "").lower()
        return float(not any(word in reply for word in FORBIDDEN))


class NothingForbiddenConfig(vf.TasksetConfig):
    """Nothing to set."""


class NothingForbiddenTaskset(vf.Taskset[NothingForbiddenTask, NothingForbiddenConfig]):
    def load(self) -> Iterator[NothingForbiddenTask]:
        for n, topic in enumerate(TOPICS * 8):
            prompt = f"Write {30 + n} plain words about {topic}."
            yield NothingForbiddenTask(vf.TaskData(idx=n, prompt=prompt), self.config.task)


__all__ = ["NothingForbiddenTaskset"]
