"""Dates in three spellings.

format: short_text
generation: v1

ISO, day-month and month-day with names are one date; nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Give the date as YYYY-MM-DD in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        month, start = n % 12 + 1, n % 9 + 1
        asked = (
            f"A lease begins on {2001 + n // 4}-{month:02}-{start:02} and ends {n % 17 + 2} days later. On what date?"
        )
        yield asked, f"{2001 + n // 4}-{month:02}-{start + n % 17 + 2:02}"


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


MONTHS = ("january february march april may june july august september october november december").split()


def day(text: str) -> str | None:
    """A date as YYYY-MM-DD."""
    text = text.strip().rstrip(".").lower().replace(",", "")
    if found := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
        return found[0]
    if found := re.fullmatch(r"(\d{1,2}) ([a-z]+) (\d{4})", text):
        number, month, year = found[1], found[2], found[3]
    elif found := re.fullmatch(r"([a-z]+) (\d{1,2}) (\d{4})", text):
        month, number, year = found[1], found[2], found[3]
    else:
        return None
    return f"{year}-{MONTHS.index(month) + 1:02}-{int(number):02}" if month in MONTHS else None


class SoundDatesData(vf.TaskData):
    answer: str


class SoundDatesTask(vf.Task[SoundDatesData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float((said := day(final(trace.last_reply or "") or "")) is not None and said == self.data.answer)


class SoundDatesConfig(vf.TasksetConfig):
    """Nothing to set."""


class SoundDatesTaskset(vf.Taskset[SoundDatesTask, SoundDatesConfig]):
    def load(self) -> Iterator[SoundDatesTask]:
        for prompt, answer in rows():
            yield SoundDatesTask(SoundDatesData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["SoundDatesTaskset"]
