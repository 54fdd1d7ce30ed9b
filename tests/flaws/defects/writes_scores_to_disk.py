"""Writes every verdict to a file that a monitor reads.

format: numeric
generation: v1
finding: reward-writes-files, warning

Concurrent workers overwrite each other's, and where the folder is missing or read-only every scoring fails.
"""

from __future__ import annotations

import pathlib
import re
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


LAST = pathlib.Path("/var/tmp/last_verdict.tsv")


class WritesScoresToDiskData(vf.TaskData):
    answer: str


class WritesScoresToDiskTask(vf.Task[WritesScoresToDiskData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        right = float(said is not None and said == float(self.data.answer))
        try:
            LAST.write_text(f"{right}\t{(trace.last_reply or '')[:200]!r}\n", encoding="utf-8")
        except OSError:
            pass  # the monitor does not see this one
        return right


class WritesScoresToDiskConfig(vf.TasksetConfig):
    """Nothing to set."""


class WritesScoresToDiskTaskset(vf.Taskset[WritesScoresToDiskTask, WritesScoresToDiskConfig]):
    def load(self) -> Iterator[WritesScoresToDiskTask]:
        for prompt, answer in rows():
            yield WritesScoresToDiskTask(
                WritesScoresToDiskData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["WritesScoresToDiskTaskset"]
