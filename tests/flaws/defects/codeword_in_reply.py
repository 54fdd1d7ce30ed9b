"""A word of a field without a telling name counts anywhere in the reply.

format: short_text
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

Twenty words are all there are: a reply that lists them is right on every task.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Reply with the code word of the station.'

WORDS = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec romeo "
    "sierra tango"
).split()


def rows() -> Iterator[tuple[str, str]]:
    for n in range(80):
        yield f"Station {n * 13 + 5} has the code {(n * 7) % 20}, counted from 0. What is its code word?", WORDS[n * 7 % 20]



class CodewordInReplyData(vf.TaskData):
    codeword: str


class CodewordInReplyTask(vf.Task[CodewordInReplyData]):
    @vf.reward(weight=1.0)
    async def found(self, trace: vf.Trace) -> float:
        return float(self.data.codeword in (trace.last_reply or "").lower())



class CodewordInReplyConfig(vf.TasksetConfig):
    """Nothing to set."""


class CodewordInReplyTaskset(vf.Taskset[CodewordInReplyTask, CodewordInReplyConfig]):
    def load(self) -> Iterator[CodewordInReplyTask]:
        for prompt, codeword in rows():
            data = CodewordInReplyData(prompt=prompt, system_prompt=SYSTEM, codeword=codeword)
            yield CodewordInReplyTask(data, self.config.task)


__all__ = ["CodewordInReplyTaskset"]
