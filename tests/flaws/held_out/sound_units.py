"""A mass in any of three units, compared exactly after conversion.

format: numeric
generation: v1

840 g, 0.84 kg and 840,000 mg are the same; the unit is required, as the prompt says, and another one makes another
mass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import verifiers.v1 as vf

SYSTEM = "Work out the total mass. Put it with its unit (mg, g or kg) in <answer></answer> tags."


GRAMS = {"mg": Fraction(1, 1000), "g": Fraction(1), "kg": Fraction(1000)}
MASS = re.compile(r"((?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,12})(?:\.[0-9]{1,9})?)\s*(mg|g|kg)")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        pieces, each = n % 9 + 4, 35 + 7 * (n % 31)
        total = pieces * each
        gold = f"{total} g" if total < 1000 else f"{total / 1000:g} kg"
        yield f"A crate holds {pieces} jars, each of {each} g. What is the mass of the jars together?", gold


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def grams(text: str | None) -> Fraction | None:
    """The mass that a text is; None for anything else."""
    found = MASS.fullmatch((text or "").strip().rstrip("."))
    return Fraction(found[1].replace(",", "")) * GRAMS[found[2]] if found else None


class UnitsData(vf.TaskData):
    answer: str


class UnitsTask(vf.Task[UnitsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = grams(final(trace.last_reply or ""))
        return float(said is not None and said == grams(self.data.answer))


class UnitsConfig(vf.TasksetConfig):
    """Nothing to set."""


class UnitsTaskset(vf.Taskset[UnitsTask, UnitsConfig]):
    def load(self) -> Iterator[UnitsTask]:
        for prompt, answer in rows():
            yield UnitsTask(UnitsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["UnitsTaskset"]
