"""Pays when any of the golds is named.

format: multi_answer
generation: v1
finding: reward-wrong-passes or reward-hackable, blocker

One easy item earns the whole list.
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


class OneOfManyData(vf.TaskData):
    answer: list[str]


class OneOfManyTask(vf.Task[OneOfManyData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = {part.strip() for part in (final(trace.last_reply or "") or "").split(",")}
        return float(any(gold in said for gold in self.data.answer))


class OneOfManyConfig(vf.TasksetConfig):
    """Nothing to set."""


class OneOfManyTaskset(vf.Taskset[OneOfManyTask, OneOfManyConfig]):
    def load(self) -> Iterator[OneOfManyTask]:
        for prompt, answer in rows():
            yield OneOfManyTask(OneOfManyData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["OneOfManyTaskset"]
