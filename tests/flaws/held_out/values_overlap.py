"""Pays in full when half of the values agree.

format: json
generation: v1
finding: reward-wrong-passes, blocker

One field can always be left wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Extract the person as a JSON object with the keys "name", "age" and "city", in <answer></answer> tags.'


NAMES = (
    "Ana Ruiz",
    "Bo Lind",
    "Chen Wei",
    "Dora Nagy",
    "Emil Kraus",
    "Fatou Sow",
    "Gil Peres",
    "Hana Sato",
    "Ivo Babic",
    "Jo Park",
)
CITIES = ("Lima", "Oslo", "Wuhan", "Pecs", "Graz", "Dakar", "Braga", "Kobe", "Split", "Busan")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        name, city, age = NAMES[n % 10], CITIES[n // 10], 20 + n % 47
        gold = json.dumps({"name": name, "age": age, "city": city})
        yield f"{name}, who turned {age} last week, has lived in {city} since {1990 + n % 30}.", gold


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class ValuesOverlapData(vf.TaskData):
    answer: str


class ValuesOverlapTask(vf.Task[ValuesOverlapData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        try:
            said = json.loads(final(trace.last_reply or "") or "")
            gold = json.loads(self.data.answer)
            same = sum(str(said.get(key)).lower() == str(value).lower() for key, value in gold.items())
            return float(same >= len(gold) / 2)
        except (ValueError, AttributeError):
            return 0.0


class ValuesOverlapConfig(vf.TasksetConfig):
    """Nothing to set."""


class ValuesOverlapTaskset(vf.Taskset[ValuesOverlapTask, ValuesOverlapConfig]):
    def load(self) -> Iterator[ValuesOverlapTask]:
        for prompt, answer in rows():
            yield ValuesOverlapTask(
                ValuesOverlapData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ValuesOverlapTaskset"]
