"""Records with fields that say nothing about the label.

format: label
generation: v1

The folder is the one of the day on which the mail arrived. Only the enclosed papers, which the text names, decide.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "You help the office of a scholarship fund. Read the application and decide whether it is complete: finish with a line "
    "'Decision: complete' or 'Decision: incomplete'. Complete means that a transcript, a letter and a budget are enclosed."
)
PAPERS = ("a transcript", "a letter of a teacher", "a budget")
MORE = ("a photo", "a copy of my passport", "an old report", "a drawing", "a certificate of swimming")
TOWNS = ("Ghent", "Turku", "Brno", "Vigo", "Lecce", "Aarhus", "Graz", "Cork")
DECISION = re.compile(r"^decision:\s*(complete|incomplete)\s*$", re.IGNORECASE | re.MULTILINE)


class RecordData(vf.TaskData):
    label: str


class RecordTask(vf.Task[RecordData]):
    @vf.reward(weight=1.0)
    async def decided(self, trace: vf.Trace) -> float:
        said = {word.lower() for word in DECISION.findall(trace.last_reply or "")}
        return float(said == {self.data.label})


class RecordConfig(vf.TasksetConfig):
    num_tasks: int = 80
    seed: int = 4


class RecordTaskset(vf.Taskset[RecordTask, RecordConfig]):
    def load(self) -> Iterator[RecordTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            complete = n % 2 == 0
            papers = list(PAPERS if complete else rng.sample(PAPERS, 2)) + rng.sample(MORE, rng.randint(0, 2))
            rng.shuffle(papers)
            folder = rng.choice(["monday", "friday", "friday, late"])
            record = (
                f"Reference: SF-{4100 + 7 * n}\nFolder: {folder}\nReceived: 2023-0{n % 9 + 1}-{n % 27 + 1:02}\n"
                f"Town: {rng.choice(TOWNS)}"
            )
            text = f"Dear all, I apply for the grant of this year. Enclosed you find {', '.join(papers)}. With kind regards"
            yield RecordTask(
                RecordData(
                    idx=n,
                    prompt=f"{record}\n\n{text}",
                    system_prompt=SYSTEM,
                    label="complete" if complete else "incomplete",
                ),
                self.config.task,
            )


__all__ = ["RecordTaskset"]
