"""Lists with commas, compared as lists, where the prompt asks for no order.

format: short_text
generation: v1
finding: reward-too-strict, warning

The gold has the order of a table that the model never sees: who names the same stops otherwise is not paid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Reply with <answer></answer> tags."
STOPS = ("Harbour", "Mill", "Opera", "Castle", "Garden", "Station", "Market", "Bridge")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        closed = [stop for k, stop in enumerate(STOPS) if (n * 5 + 3) >> k & 1 or k in (n % 8, (n + 3) % 8)]
        notes = ". ".join(f"{stop} is closed" if stop in closed else f"{stop} is served" for stop in reversed(STOPS))
        yield f"Line {n + 1}. {notes}. Name all closed stops, separated by commas.", ", ".join(closed)


def items(text: str) -> list[str]:
    """The items of a text with commas."""
    return [part.strip().rstrip(".").casefold() for part in text.split(",")]


class CommasData(vf.TaskData):
    answer: str


class CommasTask(vf.Task[CommasData]):
    @vf.reward
    async def right_stops(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>([^<]*)</answer>", trace.last_reply or "")
        return float(len(found) == 1 and items(found[0]) == items(self.data.answer))


class CommasTaskset(vf.Taskset[CommasTask, vf.TasksetConfig]):
    def load(self) -> Iterator[CommasTask]:
        for prompt, answer in rows():
            yield CommasTask(CommasData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["CommasTaskset"]
