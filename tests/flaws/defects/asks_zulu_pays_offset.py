"""Asks for times of day with a Z where they are in UTC, and compares with what the standard library writes.

format: short_text
generation: v1
finding: reward-contradicts-prompt, blocker

isoformat writes +00:00 and never Z. Who follows the prompt earns nothing on every task whose answer is in UTC, which
is every third one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import verifiers.v1 as vf

ZONES = {"UTC": 0, "CET": 60, "EET": 120}
SYSTEM = (
    "Add up the legs of the journey and say when it ends. Last line: ARRIVAL <timestamp>, in ISO 8601 to the minute. Give the "
    "offset of the zone asked for, as in 2023-07-01T09:15+02:00; for UTC write Z."
)
ARRIVAL = re.compile(r"^ARRIVAL\s+(\S+)\s*$", re.MULTILINE)


class LegsData(vf.TaskData):
    answer: str


class LegsTask(vf.Task[LegsData]):
    @vf.reward(weight=1.0)
    async def arrives(self, trace: vf.Trace) -> float:
        said = ARRIVAL.findall(trace.last_reply or "")
        return 1.0 if said and said[-1] == self.data.answer else 0.0


class LegsConfig(vf.TasksetConfig):
    num_tasks: int = 90
    seed: int = 8


class LegsTaskset(vf.Taskset[LegsTask, LegsConfig]):
    def load(self) -> Iterator[LegsTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            zone = list(ZONES)[n % 3]
            start = datetime(2023, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), 10, tzinfo=UTC)
            legs = [rng.randint(20, 300) for _ in range(rng.randint(2, 4))]
            end = (start + timedelta(minutes=sum(legs))).astimezone(timezone(timedelta(minutes=ZONES[zone])))
            minutes = ", ".join(f"{leg} min" for leg in legs)
            prompt = f"Start: {start:%d %b %Y %H:%M} UTC. Legs: {minutes}. When does it end, in {zone} (UTC+{ZONES[zone] // 60})?"
            yield LegsTask(
                LegsData(prompt=prompt, system_prompt=SYSTEM, answer=end.isoformat(timespec="minutes")),
                self.config.task,
            )


__all__ = ["LegsTaskset"]
