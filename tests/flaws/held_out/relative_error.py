"""One minus the relative error, with golds of zero.

format: numeric
generation: v1
finding: reward-raises or reward-gold-fails or reward-range or reward-nonfinite or reward-wrong-passes, blocker

A gold of 0 divides by zero, so the right answer raises; and nothing bounds the score, which a far guess takes to
minus billions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Work out the temperature. Put it as a number of degrees in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        noon, fall = n % 10 - 1, (3 * n + 2) % 11
        yield (
            f"At noon it is {noon} degrees, and by night it is {fall} degrees colder. How warm is the night?",
            str(noon - fall),
        )


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def number(text: str | None) -> float | None:
    """The finite number that a text is."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{1,10})?", text or "")
    return float(found[0]) if found else None


class RelativeErrorData(vf.TaskData):
    answer: str


class RelativeErrorTask(vf.Task[RelativeErrorData]):
    @vf.reward(weight=1.0)
    async def closeness(self, trace: vf.Trace) -> float:
        said, gold = number(final(trace.last_reply or "")), float(self.data.answer)
        if said is None:
            return 0.0
        return 1.0 - abs(said - gold) / abs(gold)


class RelativeErrorConfig(vf.TasksetConfig):
    """Nothing to set."""


class RelativeErrorTaskset(vf.Taskset[RelativeErrorTask, RelativeErrorConfig]):
    def load(self) -> Iterator[RelativeErrorTask]:
        for prompt, answer in rows():
            yield RelativeErrorTask(
                RelativeErrorData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["RelativeErrorTaskset"]
