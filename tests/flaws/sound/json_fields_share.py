"""A share of the fields that are right, in tenths of the reward, the rest for all of them.

format: json
generation: v1

Partly right objects earn up to 0.3, whole ones 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

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


def load(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads((text or "")[:4000])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class JsonFieldsShareData(vf.TaskData):
    answer: str


class JsonFieldsShareTask(vf.Task[JsonFieldsShareData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = load(final(trace.last_reply or ""))
        gold = json.loads(self.data.answer)
        if said is None:
            return 0.0
        share = sum(said.get(key) == value for key, value in gold.items()) / len(gold)
        return 1.0 if said == gold else 0.3 * share


class JsonFieldsShareConfig(vf.TasksetConfig):
    """Nothing to set."""


class JsonFieldsShareTaskset(vf.Taskset[JsonFieldsShareTask, JsonFieldsShareConfig]):
    def load(self) -> Iterator[JsonFieldsShareTask]:
        for prompt, answer in rows():
            yield JsonFieldsShareTask(
                JsonFieldsShareData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["JsonFieldsShareTaskset"]
