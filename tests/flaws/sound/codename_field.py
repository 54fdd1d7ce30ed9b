"""The answer stands in a field that no name marks as one.

format: short_text
generation: v1

The reply is compared whole with the task's own code name, which a cipher hides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Decode the word (each letter is moved one place on in the alphabet). Reply with the word alone in <answer></answer> tags.'

WORDS = (
    "amber basil cedar delta ember fable grove hazel ivory jasper kettle lemon maple nectar olive pepper quartz raven "
    "saffron tulip umber velvet willow yarrow zephyr anchor beacon copper dagger engine falcon garnet harbor island "
    "jungle kernel ladder marble needle orchid parrot quiver ribbon silver timber valley walnut yellow zipper bridge"
).split()


def rows() -> Iterator[tuple[str, str]]:
    for word in WORDS:
        yield f"Decode {''.join(chr(ord(letter) + 1) for letter in word)}.", word


def final(reply: str) -> str:
    """The one answer outside of thinking."""
    found = re.findall(r"<answer>([^<]*)</answer>", reply.rpartition("</think>")[2].partition("<think>")[0])
    return found[0].strip().strip(".").lower() if len(found) == 1 else ""



class CodenameFieldData(vf.TaskData):
    codename: str


class CodenameFieldTask(vf.Task[CodenameFieldData]):
    @vf.reward(weight=1.0)
    async def decoded(self, trace: vf.Trace) -> float:
        return float(final(trace.last_reply or "") == self.data.codename)



class CodenameFieldConfig(vf.TasksetConfig):
    """Nothing to set."""


class CodenameFieldTaskset(vf.Taskset[CodenameFieldTask, CodenameFieldConfig]):
    def load(self) -> Iterator[CodenameFieldTask]:
        for prompt, codename in rows():
            data = CodenameFieldData(prompt=prompt, system_prompt=SYSTEM, codename=codename)
            yield CodenameFieldTask(data, self.config.task)


__all__ = ["CodenameFieldTaskset"]
