"""Lists with commas in any order, compared item by item.

format: short_text
generation: v1

Both sides are sorted, so an item that is missing, repeated or added costs the reward, and the order does not.
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


class AnyOrderData(vf.TaskData):
    answer: str


class AnyOrderTask(vf.Task[AnyOrderData]):
    @vf.reward
    async def right_stops(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>([^<]*)</answer>", trace.last_reply or "")
        return float(len(found) == 1 and sorted(items(found[0])) == sorted(items(self.data.answer)))


class AnyOrderTaskset(vf.Taskset[AnyOrderTask, vf.TasksetConfig]):
    def load(self) -> Iterator[AnyOrderTask]:
        for prompt, answer in rows():
            yield AnyOrderTask(AnyOrderData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["AnyOrderTaskset"]
