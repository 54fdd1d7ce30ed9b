"""The prompt asks for tags, and the reward compares the whole reply.

format: numeric
generation: v1
finding: reward-contradicts-prompt, blocker

Every completion that does what it is told earns 0, so training unlearns the form.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Think step by step, then give the final number in <answer></answer> tags.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))



class AsksTagsPaysBareData(vf.TaskData):
    answer: str


class AsksTagsPaysBareTask(vf.Task[AsksTagsPaysBareData]):
    @vf.reward(weight=1.0)
    async def exact_match(self, trace: vf.Trace) -> float:
        return float((trace.last_reply or "").strip() == self.data.answer)



class AsksTagsPaysBareConfig(vf.TasksetConfig):
    """Nothing to set."""


class AsksTagsPaysBareTaskset(vf.Taskset[AsksTagsPaysBareTask, AsksTagsPaysBareConfig]):
    def load(self) -> Iterator[AsksTagsPaysBareTask]:
        for prompt, answer in rows():
            data = AsksTagsPaysBareData(prompt=prompt, system_prompt=SYSTEM, answer=answer)
            yield AsksTagsPaysBareTask(data, self.config.task)


__all__ = ["AsksTagsPaysBareTaskset"]
