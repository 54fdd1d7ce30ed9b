"""A small format reward wants the tag at the very beginning.

format: numeric
generation: v1

Reasoning before the tag costs 0.1 of 1.1; the right answer keeps the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Reply with <answer>NUMBER</answer> and nothing before it.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def final(reply: str) -> str:
    """The one answer outside of thinking."""
    found = re.findall(r"<answer>([^<]*)</answer>", reply.rpartition("</think>")[2].partition("<think>")[0])
    return found[0].strip().rstrip(".").replace(",", "") if len(found) == 1 else ""



class NothingBeforeTheTagData(vf.TaskData):
    answer: str


class NothingBeforeTheTagTask(vf.Task[NothingBeforeTheTagData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "")
        return float(re.fullmatch(r"[0-9]{1,9}(\.0+)?", said) is not None and float(said) == float(self.data.answer))

    @vf.reward(weight=0.1)
    async def form(self, trace: vf.Trace) -> float:
        return float(re.fullmatch(r"<answer>[^<]*</answer>[^<]*", (trace.last_reply or "").strip()) is not None)



class NothingBeforeTheTagConfig(vf.TasksetConfig):
    """Nothing to set."""


class NothingBeforeTheTagTaskset(vf.Taskset[NothingBeforeTheTagTask, NothingBeforeTheTagConfig]):
    def load(self) -> Iterator[NothingBeforeTheTagTask]:
        for prompt, answer in rows():
            data = NothingBeforeTheTagData(prompt=prompt, system_prompt=SYSTEM, answer=answer)
            yield NothingBeforeTheTagTask(data, self.config.task)


__all__ = ["NothingBeforeTheTagTaskset"]
