"""Lists compared as sets.

format: multi_answer
generation: v1

Order, repetition and an 'and' do not matter; a missing or an extra item makes it wrong.
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


class MultiAnswerSetData(vf.TaskData):
    answer: list[str]


class MultiAnswerSetTask(vf.Task[MultiAnswerSetData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "") or ""
        parts = {part.strip() for part in re.split(r",|\band\b|\n", said.rstrip(".")) if part.strip()}
        return float(parts == set(self.data.answer))


class MultiAnswerSetConfig(vf.TasksetConfig):
    """Nothing to set."""


class MultiAnswerSetTaskset(vf.Taskset[MultiAnswerSetTask, MultiAnswerSetConfig]):
    def load(self) -> Iterator[MultiAnswerSetTask]:
        for prompt, answer in rows():
            yield MultiAnswerSetTask(
                MultiAnswerSetData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["MultiAnswerSetTaskset"]
