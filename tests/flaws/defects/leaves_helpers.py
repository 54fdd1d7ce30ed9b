"""Starts a helper for every scoring and does not end it.

format: numeric
generation: v1
finding: reward-leaves-processes, warning

They pile up until the machine has no more processes. (Here only the last three are kept, to be kind to that machine.)
"""

from __future__ import annotations

import re
import subprocess
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


HELPERS: list[subprocess.Popen[bytes]] = []


class LeavesHelpersData(vf.TaskData):
    answer: str


class LeavesHelpersTask(vf.Task[LeavesHelpersData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        HELPERS.append(subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL))
        if len(HELPERS) > 3:
            HELPERS.pop(0).kill()
        said = number(final(trace.last_reply or ""))
        return float(said is not None and said == float(self.data.answer))


class LeavesHelpersConfig(vf.TasksetConfig):
    """Nothing to set."""


class LeavesHelpersTaskset(vf.Taskset[LeavesHelpersTask, LeavesHelpersConfig]):
    def load(self) -> Iterator[LeavesHelpersTask]:
        for prompt, answer in rows():
            yield LeavesHelpersTask(
                LeavesHelpersData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["LeavesHelpersTaskset"]
