"""Splits at the end of the thought and keeps the wrong half.

format: choice_letter
generation: v1
finding: reward-gold-fails or reward-hackable or reward-wrong-passes or reward-too-strict, warning

split(...)[0] is the thought, not the reply: what is answered after thinking is never read, and a letter noted in
the thought is paid whatever the answer then says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "Think inside <think></think> tags first. Then end with a line 'Answer: X', where X is the letter of the option."
)


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        divisor, place = n % 7 + 3, n % 4
        base = divisor * (n // 4 + 11)
        options = [base + divisor * 10 * k + (0 if k == place else k % (divisor - 1) + 1) for k in range(4)]
        lines = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=True))
        yield f"Which of these numbers is divisible by {divisor}?\n{lines}", "ABCD"[place]


class ThinkSplitFirstData(vf.TaskData):
    answer: str


class ThinkSplitFirstTask(vf.Task[ThinkSplitFirstData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (trace.last_reply or "").split("</think>")[0]
        letters = re.findall(r"Answer:\s*([A-D])\b", said)
        return float(bool(letters) and letters[-1] == self.data.answer)


class ThinkSplitFirstConfig(vf.TasksetConfig):
    """Nothing to set."""


class ThinkSplitFirstTaskset(vf.Taskset[ThinkSplitFirstTask, ThinkSplitFirstConfig]):
    def load(self) -> Iterator[ThinkSplitFirstTask]:
        for prompt, answer in rows():
            yield ThinkSplitFirstTask(
                ThinkSplitFirstData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ThinkSplitFirstTaskset"]
