"""Compares the name of the tool and not its arguments.

format: tool_call
generation: v1
finding: reward-wrong-passes, blocker

Half of the tasks have the same tool, so arguments are never learned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    'Tools: set_timer(minutes, label), add_item(list, item). Reply with one call as JSON, {"name": ..., '
    '"arguments": {...}}, in <tool_call></tool_call> tags.'
)


THINGS = ("pasta", "laundry", "tea", "bread", "nap", "rice", "yoga", "soup", "eggs", "break")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        thing = THINGS[n % 10]
        if n % 2:
            call = {"name": "set_timer", "arguments": {"minutes": n + 3, "label": thing}}
            asked = f"Remind me about the {thing} in {n + 3} minutes."
        else:
            call = {"name": "add_item", "arguments": {"list": f"week {n}", "item": thing}}
            asked = f"Put {thing} on my list for week {n}."
        yield asked, json.dumps(call)


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class ToolNameOnlyData(vf.TaskData):
    answer: str


class ToolNameOnlyTask(vf.Task[ToolNameOnlyData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        try:
            said = json.loads(final(trace.last_reply or "", "tool_call") or "")
            return float(said["name"] == json.loads(self.data.answer)["name"])
        except (ValueError, KeyError, TypeError):
            return 0.0


class ToolNameOnlyConfig(vf.TasksetConfig):
    """Nothing to set."""


class ToolNameOnlyTaskset(vf.Taskset[ToolNameOnlyTask, ToolNameOnlyConfig]):
    def load(self) -> Iterator[ToolNameOnlyTask]:
        for prompt, answer in rows():
            yield ToolNameOnlyTask(
                ToolNameOnlyData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ToolNameOnlyTaskset"]
