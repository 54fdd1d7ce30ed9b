"""Asks a service for the verdict and falls back to its own.

format: numeric
generation: v1
finding: reward-opens-network, warning

Every rollout waits for a host that nobody watches, and the fallback hides when it is gone.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


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


class AsksTheNetworkData(vf.TaskData):
    answer: str


class AsksTheNetworkTask(vf.Task[AsksTheNetworkData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        right = float(said is not None and said == float(self.data.answer))
        asked = json.dumps({"said": said, "answer": self.data.answer}).encode()
        try:
            with urllib.request.urlopen("http://verdict.example/score", data=asked, timeout=2) as told:
                return float(json.load(told)["score"])
        except OSError:
            return right


class AsksTheNetworkConfig(vf.TasksetConfig):
    """Nothing to set."""


class AsksTheNetworkTaskset(vf.Taskset[AsksTheNetworkTask, AsksTheNetworkConfig]):
    def load(self) -> Iterator[AsksTheNetworkTask]:
        for prompt, answer in rows():
            yield AsksTheNetworkTask(
                AsksTheNetworkData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["AsksTheNetworkTaskset"]
