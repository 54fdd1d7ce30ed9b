"""The reply counts where the worked solution contains it.

format: latex
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

The solution holds the numbers of the question and every small digit, so hardly a number is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Reply with the final number in \\boxed{}.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(80):
        a, b = n + 12, 3 * n + 10
        yield f"What is {a} times {b}?", f"First 10 times {a} is {10 * a}, and so on: \\boxed{{{a * b}}}."



class ReplyInTheSolutionData(vf.TaskData):
    solution: str


class ReplyInTheSolutionTask(vf.Task[ReplyInTheSolutionData]):
    @vf.reward(weight=1.0)
    async def derived(self, trace: vf.Trace) -> float:
        found = re.search(r"boxed\{([^}]*)\}", trace.last_reply or "")
        return float(found is not None and found[1].strip() != "" and found[1].strip() in self.data.solution)



class ReplyInTheSolutionConfig(vf.TasksetConfig):
    """Nothing to set."""


class ReplyInTheSolutionTaskset(vf.Taskset[ReplyInTheSolutionTask, ReplyInTheSolutionConfig]):
    def load(self) -> Iterator[ReplyInTheSolutionTask]:
        for prompt, solution in rows():
            data = ReplyInTheSolutionData(prompt=prompt, system_prompt=SYSTEM, solution=solution)
            yield ReplyInTheSolutionTask(data, self.config.task)


__all__ = ["ReplyInTheSolutionTaskset"]
