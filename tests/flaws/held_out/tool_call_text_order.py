"""Compares tool calls as text, arguments in the order of the gold.

format: tool_call
generation: v1
finding: reward-too-strict, warning

Both sides go through json.dumps without sort_keys: the same call with its arguments in another order, which nothing
forbids, earns nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "You can call book_table(restaurant: string, guests: integer, hour: integer) and "
    'cancel_table(restaurant: string, hour: integer). Reply with one call as a JSON object with the keys "name" and '
    '"arguments", in <tool_call></tool_call> tags.'
)


PLACES = ("Osteria", "Kantine", "Sakura", "Bodega", "Bistro Nord", "Taverna")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(96):
        place, guests, hour = PLACES[n % 6], n % 7 + 2, n % 5 + 17
        if n % 4 == 3:
            call = {"name": "cancel_table", "arguments": {"restaurant": place, "hour": hour}}
            yield f"We will not make it to {place} at {hour} o'clock after all, table {n + 1}.", json.dumps(call)
        else:
            call = {"name": "book_table", "arguments": {"restaurant": place, "guests": guests, "hour": hour}}
            yield f"Request {n + 1}: we are {guests} and want to eat at {place} at {hour} o'clock.", json.dumps(call)


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def canonical(text: str | None) -> str | None:
    """JSON without the accidents of its spelling."""
    try:
        return json.dumps(json.loads((text or "")[:4000]))
    except (ValueError, RecursionError):
        return None


class ToolCallTextOrderData(vf.TaskData):
    answer: str


class ToolCallTextOrderTask(vf.Task[ToolCallTextOrderData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = canonical(final(trace.last_reply or "", "tool_call"))
        return float(said is not None and said == canonical(self.data.answer))


class ToolCallTextOrderConfig(vf.TasksetConfig):
    """Nothing to set."""


class ToolCallTextOrderTaskset(vf.Taskset[ToolCallTextOrderTask, ToolCallTextOrderConfig]):
    def load(self) -> Iterator[ToolCallTextOrderTask]:
        for prompt, answer in rows():
            yield ToolCallTextOrderTask(
                ToolCallTextOrderData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ToolCallTextOrderTaskset"]
