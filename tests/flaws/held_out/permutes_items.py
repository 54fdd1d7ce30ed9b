"""Tries every order of the listed items.

format: multi_answer
generation: v1
finding: reward-slow or reward-blocks-loop, warning

Order is ignored by way of itertools.permutations of whatever was listed: a list of a dozen items takes minutes,
inside the event loop, and one of twenty never ends.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "List the words that fit, in any order, separated by commas, in <answer></answer> tags."


WORDS = (
    "apple", "brick", "cloud", "drum", "eagle", "fern", "glove", "house", "igloo", "jar", "kite", "lemon", "mango",
    "nest", "olive", "piano", "quilt", "rope", "spoon", "tulip",
)


def rows() -> Iterator[tuple[str, list[str]]]:
    for n in range(120):
        shown = [WORDS[(n + 3 * k + k * k) % 20] for k in range(9)]
        shown = list(dict.fromkeys(shown))
        letter = "aeioulr"[n % 7]
        fitting = [word for word in shown if letter in word]
        if 2 <= len(fitting) <= 5:
            yield f"Round {n + 1}. Which of these contain the letter {letter}? {', '.join(shown)}", fitting


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class PermutesItemsData(vf.TaskData):
    answer: list[str]


class PermutesItemsTask(vf.Task[PermutesItemsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = [item.strip().lower() for item in (final(trace.last_reply or "") or "").split(",")]
        return float(any(list(order) == self.data.answer for order in itertools.permutations(said)))


class PermutesItemsConfig(vf.TasksetConfig):
    """Nothing to set."""


class PermutesItemsTaskset(vf.Taskset[PermutesItemsTask, PermutesItemsConfig]):
    def load(self) -> Iterator[PermutesItemsTask]:
        for prompt, answer in rows():
            yield PermutesItemsTask(
                PermutesItemsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["PermutesItemsTaskset"]
