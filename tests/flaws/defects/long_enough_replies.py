"""A third of the reward grows with the length of the reply.

format: numeric
generation: v1
finding: reward-length-bonus, blocker

Any text of 400 words earns it, whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Explain your working, then give the number in <answer></answer> tags.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))



class LongEnoughRepliesData(vf.TaskData):
    answer: str


class LongEnoughRepliesTask(vf.Task[LongEnoughRepliesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>\s*([0-9]+)\s*</answer>", trace.last_reply or "")
        return float(len(found) == 1 and found[0] == self.data.answer)

    @vf.reward(weight=0.5)
    async def thorough(self, trace: vf.Trace) -> float:
        return min(1.0, len((trace.last_reply or "").split()) / 400)



class LongEnoughRepliesConfig(vf.TasksetConfig):
    """Nothing to set."""


class LongEnoughRepliesTaskset(vf.Taskset[LongEnoughRepliesTask, LongEnoughRepliesConfig]):
    def load(self) -> Iterator[LongEnoughRepliesTask]:
        for prompt, answer in rows():
            data = LongEnoughRepliesData(prompt=prompt, system_prompt=SYSTEM, answer=answer)
            yield LongEnoughRepliesTask(data, self.config.task)


__all__ = ["LongEnoughRepliesTaskset"]
