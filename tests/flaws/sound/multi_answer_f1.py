"""Overlap of the sets, squared and halved unless it is complete.

format: multi_answer
generation: v1

Partial credit grows with the overlap, extra items cost, and incomplete lists stay under one half.
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


class MultiAnswerF1Data(vf.TaskData):
    answer: list[str]


class MultiAnswerF1Task(vf.Task[MultiAnswerF1Data]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "") or ""
        parts = {part.strip() for part in said.rstrip(".").split(",") if part.strip()}
        gold = set(self.data.answer)
        overlap = len(parts & gold) / len(parts | gold)
        return 1.0 if parts == gold else 0.4 * overlap**2


class MultiAnswerF1Config(vf.TasksetConfig):
    """Nothing to set."""


class MultiAnswerF1Taskset(vf.Taskset[MultiAnswerF1Task, MultiAnswerF1Config]):
    def load(self) -> Iterator[MultiAnswerF1Task]:
        for prompt, answer in rows():
            yield MultiAnswerF1Task(
                MultiAnswerF1Data(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["MultiAnswerF1Taskset"]
