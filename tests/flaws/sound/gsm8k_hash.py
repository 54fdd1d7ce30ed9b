"""Worked solutions that end in #### and the number.

format: numeric
generation: v1

The gold is what follows the last ####; a reply must have exactly one such line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Solve the problem step by step. End with a line of #### and the number."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        red, blue = n + 3, 3 * n + 7
        worked = (
            f"There are {red} red ones. Together that is {red} + {blue} = <<{red}+{blue}={red + blue}>>{red + blue}."
        )
        yield f"A box holds {red} red and {blue} blue marbles. How many are in it?", f"{worked}\n#### {red + blue}"


def number(text: str | None) -> float | None:
    """The finite number that a text is, with thousands commas; None for anything else."""
    found = re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{0,10})?", (text or "").strip().replace(",", "").rstrip("."))
    return float(found[0]) if found else None


class Gsm8kHashData(vf.TaskData):
    answer: str


class Gsm8kHashTask(vf.Task[Gsm8kHashData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = (trace.last_reply or "").rpartition("</think>")[2].partition("<think>")[0]
        found = re.findall(r"(?m)^####[ ]*(\S+)[ ]*$", said)
        gold = self.data.answer.rpartition("####")[2]
        return float(len(found) == 1 and said.count("####") == 1 and number(found[0]) == number(gold))


class Gsm8kHashConfig(vf.TasksetConfig):
    """Nothing to set."""


class Gsm8kHashTaskset(vf.Taskset[Gsm8kHashTask, Gsm8kHashConfig]):
    def load(self) -> Iterator[Gsm8kHashTask]:
        for prompt, answer in rows():
            yield Gsm8kHashTask(Gsm8kHashData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["Gsm8kHashTaskset"]
