"""A curriculum by the number of calls so far.

format: numeric
generation: v1
finding: reward-order-dependent or reward-nondeterministic, blocker

What the same reply earns depends on how many were scored before it, so advantages are noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


CALLS = {"n": 0}


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


class CallCounterData(vf.TaskData):
    answer: str


class CallCounterTask(vf.Task[CallCounterData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        CALLS["n"] += 1
        ease = 0.5 if CALLS["n"] < 300 else 0.0
        said = number(final(trace.last_reply or ""))
        gold = float(self.data.answer)
        if said is None:
            return 0.0
        return 1.0 if said == gold else ease * max(0.0, 1.0 - abs(said - gold) / 100)


class CallCounterConfig(vf.TasksetConfig):
    """Nothing to set."""


class CallCounterTaskset(vf.Taskset[CallCounterTask, CallCounterConfig]):
    def load(self) -> Iterator[CallCounterTask]:
        for prompt, answer in rows():
            yield CallCounterTask(CallCounterData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["CallCounterTaskset"]
