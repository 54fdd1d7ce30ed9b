"""Asks for times of day with a Z where they are in UTC, and compares points in time.

format: short_text
generation: v1

Both sides are parsed, so Z and +00:00 are the same; a time in another zone is not, because the offset counts too.
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


class ZuluData(vf.TaskData):
    answer: str


class ZuluTask(vf.Task[ZuluData]):
    @vf.reward(weight=1.0)
    async def arrives(self, trace: vf.Trace) -> float:
        said = ARRIVAL.findall(trace.last_reply or "")
        if not said:
            return 0.0
        try:
            end = datetime.fromisoformat(said[-1].replace("Z", "+00:00"))
        except ValueError:
            return 0.0
        gold = datetime.fromisoformat(self.data.answer)
        return float(end.tzinfo is not None and end == gold and end.utcoffset() == gold.utcoffset())


class ZuluConfig(vf.TasksetConfig):
    num_tasks: int = 90
    seed: int = 8


class ZuluTaskset(vf.Taskset[ZuluTask, ZuluConfig]):
    def load(self) -> Iterator[ZuluTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            zone = list(ZONES)[n % 3]
            start = datetime(2023, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), 10, tzinfo=UTC)
            legs = [rng.randint(20, 300) for _ in range(rng.randint(2, 4))]
            end = (start + timedelta(minutes=sum(legs))).astimezone(timezone(timedelta(minutes=ZONES[zone])))
            minutes = ", ".join(f"{leg} min" for leg in legs)
            prompt = f"Start: {start:%d %b %Y %H:%M} UTC. Legs: {minutes}. When does it end, in {zone} (UTC+{ZONES[zone] // 60})?"
            yield ZuluTask(
                ZuluData(prompt=prompt, system_prompt=SYSTEM, answer=end.isoformat(timespec="minutes")),
                self.config.task,
            )


__all__ = ["ZuluTaskset"]
