"""A regular expression, tested on the texts that it must match and on those that it must refuse.

format: short_text
generation: v1

Another pattern may be as right; one that matches everything is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Write a Python regular expression for the whole text. Put it in <pattern></pattern> tags."


def rows() -> Iterator[tuple[str, str, list[str], list[str]]]:
    for n in range(80):
        first, last, digits = "abcdefghij"[n % 10], "pqrstuvw"[n // 10], n % 3 + 2
        good = [f"{first}{'7' * digits}{last}", f"{first}{'30' * 3}"[: digits + 1] + last]
        bad = [f"{last}{'7' * digits}{first}", f"{first}{'7' * (digits + 1)}{last}", f"{first}{last}"]
        asked = f"{first}, then {digits} digits, then {last}. Match {', '.join(good)}; refuse {', '.join(bad)}."
        yield asked, rf"{first}\d{{{digits}}}{last}", good, bad


def compiled(reply: str) -> re.Pattern[str] | None:
    """The one pattern of a reply."""
    found = re.findall(r"<pattern>\s*([^<]{1,80}?)\s*</pattern>", reply)
    try:
        return re.compile(found[0]) if len(found) == 1 else None
    except (re.error, RecursionError, OverflowError):
        return None


class BothWaysData(vf.TaskData):
    answer: str
    good: list[str]
    bad: list[str]


class BothWaysTask(vf.Task[BothWaysData]):
    @vf.reward
    async def treats_texts_right(self, trace: vf.Trace) -> float:
        pattern = compiled(trace.last_reply or "")
        if pattern is None:
            return 0.0
        right = all(pattern.fullmatch(text) for text in self.data.good)
        return float(right and not any(pattern.fullmatch(text) for text in self.data.bad))


class BothWaysTaskset(vf.Taskset[BothWaysTask, vf.TasksetConfig]):
    def load(self) -> Iterator[BothWaysTask]:
        for prompt, answer, good, bad in rows():
            data = BothWaysData(prompt=prompt, system_prompt=SYSTEM, answer=answer, good=good, bad=bad)
            yield BothWaysTask(data, self.config.task)


__all__ = ["BothWaysTaskset"]
