"""Unions of intervals, compared as sets with their brackets.

format: latex
generation: v1

Spaces, left and right, the sign of infinity and the order of the parts do not matter; every bound and every bracket
does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    r"Solve the inequality. Put the set of solutions in interval notation, like (-\infty, 1) \cup [2, 3], in \boxed{}."
)


PART = re.compile(r"([(\[])(-?[0-9]{1,9}|-\\infty),(-?[0-9]{1,9}|\\infty)([)\]])")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(96):
        low = n % 12 - 7
        high = low + n // 12 % 5 + 2
        sign, gold = (
            ("<", f"({low}, {high})"),
            (r"\le", f"[{low}, {high}]"),
            (">", rf"(-\infty, {low}) \cup ({high}, \infty)"),
            (r"\ge", rf"(-\infty, {low}] \cup [{high}, \infty)"),
        )[(n + n // 12) % 4]
        yield f"Solve $x^2 {-(low + high):+d}x {low * high:+d} {sign} 0$.", gold


def boxed(reply: str) -> str | None:
    """What the box outside of thinking holds; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(r"\\boxed\{([^{}]*)\}", said)
    if len(found) != said.count("\\boxed") or len({text.strip() for text in found}) != 1:
        return None
    return found[0]


def intervals(text: str | None) -> frozenset[tuple[str, ...]] | None:
    """The parts of a union of intervals; None for anything else."""
    bare = re.sub(r"\\left|\\right|\\[,;!: ]|[\s$]", "", (text or "")[:400])
    bare = bare.replace("∞", r"\infty").replace(r"+\infty", r"\infty").replace("∪", r"\cup")
    found = [PART.fullmatch(part) for part in bare.split(r"\cup")]
    parts = [match.groups() for match in found if match]
    if len(parts) != len(found) or len(set(parts)) != len(parts):
        return None
    return frozenset(parts)


class IntervalsData(vf.TaskData):
    answer: str


class IntervalsTask(vf.Task[IntervalsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = intervals(boxed(trace.last_reply or ""))
        return float(said is not None and said == intervals(self.data.answer))


class IntervalsConfig(vf.TasksetConfig):
    """Nothing to set."""


class IntervalsTaskset(vf.Taskset[IntervalsTask, IntervalsConfig]):
    def load(self) -> Iterator[IntervalsTask]:
        for prompt, answer in rows():
            yield IntervalsTask(IntervalsData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["IntervalsTaskset"]
