"""Compares only the keys that the reply gives.

format: json
generation: v1
finding: reward-wrong-passes or reward-hackable, blocker

An empty object agrees with every gold.
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


class JsonSubsetData(vf.TaskData):
    answer: str


class JsonSubsetTask(vf.Task[JsonSubsetData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        try:
            said = json.loads(final(trace.last_reply or "") or "")
            gold = json.loads(self.data.answer)
            return float(all(gold.get(key) == value for key, value in said.items()))
        except (ValueError, AttributeError):
            return 0.0


class JsonSubsetConfig(vf.TasksetConfig):
    """Nothing to set."""


class JsonSubsetTaskset(vf.Taskset[JsonSubsetTask, JsonSubsetConfig]):
    def load(self) -> Iterator[JsonSubsetTask]:
        for prompt, answer in rows():
            yield JsonSubsetTask(JsonSubsetData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["JsonSubsetTaskset"]
