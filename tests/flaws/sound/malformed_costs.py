"""No readable answer costs a little, a wrong one nothing.

format: numeric
generation: v1

The floor is negative, and the order right, wrong, malformed is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work it out and give the temperature in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        start, drop = n % 19 - 9, n % 23 + 3
        yield (
            f"At noon it was {start} degrees; by night it was {drop} degrees colder. How cold was it then?",
            str(start - drop),
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class MalformedCostsData(vf.TaskData):
    answer: str


class MalformedCostsTask(vf.Task[MalformedCostsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        if said is None:
            return -0.2
        return float(said == float(self.data.answer))


class MalformedCostsConfig(vf.TasksetConfig):
    """Nothing to set."""


class MalformedCostsTaskset(vf.Taskset[MalformedCostsTask, MalformedCostsConfig]):
    def load(self) -> Iterator[MalformedCostsTask]:
        for prompt, answer in rows():
            yield MalformedCostsTask(
                MalformedCostsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["MalformedCostsTaskset"]
