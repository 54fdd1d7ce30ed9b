"""Asks for a JSON number, and compares texts and numbers by value.

format: json
generation: v1

The stored objects hold texts only. A number and the text of this number are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Reply with one JSON object: {"guest": string, "nights": integer, "price": number}'
GUESTS = ("Abbott", "Brandt", "Cole", "Dietz", "Ende", "Frost", "Gray", "Hale", "Iwan", "Jung")


def same(said: object, value: str) -> bool:
    try:
        return float(str(said)) == float(value)
    except ValueError:
        return str(said) == value


class StayData(vf.TaskData):
    answer: dict[str, str]


class StayTask(vf.Task[StayData]):
    @vf.reward(weight=1.0)
    async def fields(self, trace: vf.Trace) -> float:
        try:
            said = json.loads(trace.last_reply or "")
        except ValueError:
            return 0.0
        if not isinstance(said, dict) or set(said) != set(self.data.answer):
            return 0.0
        return sum(same(said[key], value) for key, value in self.data.answer.items()) / len(self.data.answer)


class NumberAskedValuePaidTaskset(vf.Taskset[StayTask, vf.TasksetConfig]):
    def load(self) -> Iterator[StayTask]:
        for n in range(70):
            guest, nights, price = GUESTS[n % 10], 1 + n % 9, f"{61 + 7 * n}.{(13 * n) % 90 + 10}"
            letter = f"Dear all, {guest} stays for {nights} nights and pays {price} in all. (Letter {n + 1})"
            data = StayData(
                prompt=letter, system_prompt=SYSTEM, answer={"guest": guest, "nights": str(nights), "price": price}
            )
            yield StayTask(data, self.config.task)


__all__ = ["NumberAskedValuePaidTaskset"]
