"""Compares in a process of its own, over a file in a temporary folder.

format: numeric
generation: v1

The folder has a name of its own and is removed, the process gets a time limit and is awaited, and nothing that the
reply says is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import re
import sys
import tempfile
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


CHECK = "import sys; said, gold = open(sys.argv[1]).read().split(); sys.exit(float(said) != float(gold))"


async def compared(said: float, gold: float) -> float:
    """Whether another process finds the two equal."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "numbers.txt")
        path.write_text(f"{said!r} {gold!r}", encoding="utf-8")
        child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", CHECK, str(path))
        try:
            async with asyncio.timeout(4):
                return float(await child.wait() == 0)
        except TimeoutError:
            return 0.0
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


class ChecksInSubprocessData(vf.TaskData):
    answer: str


class ChecksInSubprocessTask(vf.Task[ChecksInSubprocessData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = number(final(trace.last_reply or ""))
        return 0.0 if said is None else await compared(said, float(self.data.answer))


class ChecksInSubprocessConfig(vf.TasksetConfig):
    """Nothing to set."""


class ChecksInSubprocessTaskset(vf.Taskset[ChecksInSubprocessTask, ChecksInSubprocessConfig]):
    def load(self) -> Iterator[ChecksInSubprocessTask]:
        for prompt, answer in rows():
            yield ChecksInSubprocessTask(
                ChecksInSubprocessData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ChecksInSubprocessTaskset"]
