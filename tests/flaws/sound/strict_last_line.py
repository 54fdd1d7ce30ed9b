"""The last line must be ANSWER: and the number; reasoning before it is free.

format: numeric
generation: v1

Only the last line is read, so nothing before it can be stuffed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think first if you like. The last line of your reply must be ANSWER: followed by the number."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class StrictLastLineData(vf.TaskData):
    answer: str


class StrictLastLineTask(vf.Task[StrictLastLineData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        lines = (trace.last_reply or "").rpartition("</think>")[2].strip().splitlines()
        found = re.fullmatch(r"\s*ANSWER:\s*(\S+)\s*", lines[-1]) if lines else None
        others = [line for line in lines[:-1] if line.strip().startswith("ANSWER:")]
        return float(found is not None and not others and number(found[1]) == float(self.data.answer))


class StrictLastLineConfig(vf.TasksetConfig):
    """Nothing to set."""


class StrictLastLineTaskset(vf.Taskset[StrictLastLineTask, StrictLastLineConfig]):
    def load(self) -> Iterator[StrictLastLineTask]:
        for prompt, answer in rows():
            yield StrictLastLineTask(
                StrictLastLineData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["StrictLastLineTaskset"]
