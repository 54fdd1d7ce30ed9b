"""Compares times of the 24-hour clock on the dial of twelve hours.

format: short_text
generation: v1
finding: reward-wrong-passes, blocker

A reply of 03:30 is paid for 15:30, which is the very step that the task is about.
"""

import random
import re

import verifiers.v1 as vf

SYSTEM = "Work out the time on the 24-hour clock. Finish with a line `Time: HH:MM`."


class ClockData(vf.TaskData):
    answer: str


def minutes(text):
    h, m = text.split(":")
    return int(h) % 12 * 60 + int(m)


class Clock(vf.Task[ClockData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        found = re.findall(r"^Time:\s*(\d{1,2}:\d{2})\s*$", trace.last_reply or "", re.M)
        return float(len(found) == 1 and minutes(found[0]) == minutes(self.data.answer))


class Clocks(vf.Taskset[Clock, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(5)
        for n in range(80):
            start, plus = rng.randint(0, 1439), rng.randint(45, 1100)
            end = (start + plus) % 1440
            text = (
                f"A train leaves at {start // 60:02}:{start % 60:02} and travels {plus} minutes. When does it arrive?"
            )
            yield Clock(
                ClockData(idx=n, prompt=text, system_prompt=SYSTEM, answer=f"{end // 60:02}:{end % 60:02}"),
                self.config.task,
            )


__all__ = ["Clocks"]
