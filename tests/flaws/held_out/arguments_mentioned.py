"""Looks for the tool's name and each argument in the text.

format: tool_call
generation: v1
finding: reward-ignores-format or reward-hackable or reward-wrong-passes, warning

No valid call is needed: any text with the words of the question will do.
"""

from __future__ import annotations

import json
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


class ArgumentsMentionedData(vf.TaskData):
    answer: str


class ArgumentsMentionedTask(vf.Task[ArgumentsMentionedData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        reply = (trace.last_reply or "").lower()
        call = json.loads(self.data.answer)
        wanted = [call["name"], *map(str, call["arguments"].values())]
        return float(all(word.lower() in reply for word in wanted))


class ArgumentsMentionedConfig(vf.TasksetConfig):
    """Nothing to set."""


class ArgumentsMentionedTaskset(vf.Taskset[ArgumentsMentionedTask, ArgumentsMentionedConfig]):
    def load(self) -> Iterator[ArgumentsMentionedTask]:
        for prompt, answer in rows():
            yield ArgumentsMentionedTask(
                ArgumentsMentionedData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["ArgumentsMentionedTaskset"]
