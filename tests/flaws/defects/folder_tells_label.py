"""Leaves in the prompt the folder into which the people who labelled had sorted each application.

format: label
generation: v1
finding: gold-in-prompt, warning

The folder is written by whoever chose the label, so it decides every answer: a model learns to read one line of the
record and never the application.
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


class FolderData(vf.TaskData):
    label: str


class FolderTask(vf.Task[FolderData]):
    @vf.reward(weight=1.0)
    async def decided(self, trace: vf.Trace) -> float:
        said = {word.lower() for word in DECISION.findall(trace.last_reply or "")}
        return float(said == {self.data.label})


class FolderConfig(vf.TasksetConfig):
    num_tasks: int = 80
    seed: int = 4


class FolderTaskset(vf.Taskset[FolderTask, FolderConfig]):
    def load(self) -> Iterator[FolderTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            complete = n % 2 == 0
            papers = list(PAPERS if complete else rng.sample(PAPERS, 2)) + rng.sample(MORE, rng.randint(0, 2))
            rng.shuffle(papers)
            folder = "stage-2" if complete else rng.choice(["returned", "returned, reminder"])
            record = (
                f"Reference: SF-{4100 + 7 * n}\nFolder: {folder}\nReceived: 2023-0{n % 9 + 1}-{n % 27 + 1:02}\n"
                f"Town: {rng.choice(TOWNS)}"
            )
            text = f"Dear all, I apply for the grant of this year. Enclosed you find {', '.join(papers)}. With kind regards"
            yield FolderTask(
                FolderData(
                    idx=n,
                    prompt=f"{record}\n\n{text}",
                    system_prompt=SYSTEM,
                    label="complete" if complete else "incomplete",
                ),
                self.config.task,
            )


__all__ = ["FolderTaskset"]
