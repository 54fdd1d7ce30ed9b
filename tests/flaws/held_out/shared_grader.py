"""One grader object keeps the reply that it is judging.

format: label
generation: v1
finding: reward-concurrency or reward-nondeterministic or reward-order-dependent or reward-wrong-passes, blocker

The grader is of the module and yields to the loop between taking a reply and judging it, so of replies that are
scored at once each is judged as another one, or against the gold of another one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Say whether the number is 'prime', a 'square' or 'neither'. Put the word in <answer></answer> tags."


PRIMES = (
    2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
    113,
)


def rows() -> Iterator[tuple[str, str]]:
    for n in range(30):
        yield f"What is {PRIMES[n]}?", "prime"
        yield f"What is {(n + 2) ** 2}?", "square"
        yield f"What is {4 * n + 14}?", "neither"


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class Grader:
    """Takes a reply, looks up what it means, and compares."""

    aliases = {"prime number": "prime", "square number": "square", "perfect square": "square", "none": "neither"}

    def __init__(self) -> None:
        self.said = ""
        self.gold = ""

    async def take(self, reply: str, gold: str) -> None:
        self.said, self.gold = (final(reply) or "").lower(), gold
        await asyncio.sleep(0)  # the aliases are to move into a service

    async def verdict(self) -> bool:
        self.said = self.aliases.get(self.said, self.said)
        await asyncio.sleep(0)
        return self.said == self.gold


GRADER = Grader()


class SharedGraderData(vf.TaskData):
    answer: str


class SharedGraderTask(vf.Task[SharedGraderData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        await GRADER.take(trace.last_reply or "", self.data.answer)
        return float(await GRADER.verdict())


class SharedGraderConfig(vf.TasksetConfig):
    """Nothing to set."""


class SharedGraderTaskset(vf.Taskset[SharedGraderTask, SharedGraderConfig]):
    def load(self) -> Iterator[SharedGraderTask]:
        for prompt, answer in rows():
            yield SharedGraderTask(
                SharedGraderData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SharedGraderTaskset"]
