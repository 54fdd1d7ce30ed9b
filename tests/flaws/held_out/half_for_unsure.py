"""Gives a coin flip to replies that say neither yes nor no.

format: boolean
generation: v1
finding: reward-nondeterministic or reward-malformed-beats-wrong, blocker

Hedging earns as much as guessing and differs from call to call.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Answer yes or no, in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        other = n * 7 % 13 + 1
        yield f"Is {n} + {other} an even number?", "yes" if (n + other) % 2 == 0 else "no"


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class HalfForUnsureData(vf.TaskData):
    answer: str


class HalfForUnsureTask(vf.Task[HalfForUnsureData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (final(trace.last_reply or "") or "").lower().strip(" .")
        if said in ("yes", "no"):
            return float(said == self.data.answer)
        return float(random.random() < 0.5)


class HalfForUnsureConfig(vf.TasksetConfig):
    """Nothing to set."""


class HalfForUnsureTaskset(vf.Taskset[HalfForUnsureTask, HalfForUnsureConfig]):
    def load(self) -> Iterator[HalfForUnsureTask]:
        for prompt, answer in rows():
            yield HalfForUnsureTask(
                HalfForUnsureData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["HalfForUnsureTaskset"]
