"""The prompt asks for the day first, and the reward reads the day first.

format: short_text
generation: v1

Dates in other spellings are read too, and none of them can be mistaken.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import verifiers.v1 as vf

SYSTEM = "End your reply with a line `Due: DD/MM/YYYY`."
FORMS = ("%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%d %B %Y")


def read_date(text: str) -> date | None:
    """The date of a text in the first form that fits."""
    for form in FORMS:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    return None


class DueData(vf.TaskData):
    answer: str


class DueTask(vf.Task[DueData]):
    @vf.reward(weight=1.0)
    async def due(self, trace: vf.Trace) -> float:
        lines = [line for line in (trace.last_reply or "").splitlines() if line.startswith("Due:")]
        return float(bool(lines) and read_date(lines[-1][4:]) == date.fromisoformat(self.data.answer))


class DayReadFirstTaskset(vf.Taskset[DueTask, vf.TasksetConfig]):
    def load(self) -> Iterator[DueTask]:
        for number in range(70):
            lent = date(2023, 1, 3) + timedelta(days=17 * number)
            weeks = 2 + number % 5
            asked = f"A book is lent on {lent.day} {lent:%B} {lent.year} for {weeks} weeks. When is it due?"
            due = (lent + timedelta(weeks=weeks)).isoformat()
            yield DueTask(DueData(prompt=asked, system_prompt=SYSTEM, answer=due), self.config.task)


__all__ = ["DayReadFirstTaskset"]
