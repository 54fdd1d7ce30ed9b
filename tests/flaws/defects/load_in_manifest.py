"""The record of each task holds the sum that is asked for, under a key that no question names.

format: numeric
generation: v1
finding: gold-in-prompt, warning

A model copies the entry `loaded_kg` instead of adding up the crates; to read an entry may be a task of its own.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "End with a last line of the form TOTAL: N."


def rows() -> Iterator[tuple[str, int]]:
    draw = random.Random(17)
    for n in range(120):
        crates = [draw.randint(110, 390) for _ in range(draw.randint(3, 5))]
        fields = {"crates": crates, "loaded_kg": sum(crates), "axle_kg": draw.randint(400, 1900), "van": 200 + n}
        fields["permitted_kg"] = draw.randint(1500, 1999)
        names = draw.sample(sorted(fields), len(fields))
        record = json.dumps({name: fields[name] for name in names})
        yield f"{record}\nHow many kilograms do the crates weigh together?", sum(crates)


class LoadInManifestData(vf.TaskData):
    answer: str


class LoadInManifestTask(vf.Task[LoadInManifestData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        reply = (trace.last_reply or "").rpartition("</think>")[2].strip()
        found = re.fullmatch(r"TOTAL: ([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:[.]0+)?[.]?", reply.splitlines()[-1].strip() if reply else "")
        return float(found is not None and found[1].replace(",", "") == self.data.answer)


class LoadInManifestConfig(vf.TasksetConfig):
    """Nothing to set."""


class LoadInManifestTaskset(vf.Taskset[LoadInManifestTask, LoadInManifestConfig]):
    def load(self) -> Iterator[LoadInManifestTask]:
        for prompt, total in rows():
            data = LoadInManifestData(prompt=prompt, system_prompt=SYSTEM, answer=str(total))
            yield LoadInManifestTask(data, self.config.task)


__all__ = ["LoadInManifestTaskset"]
