"""A note is to be tidied up, and the reward measures how alike reply and tidy note are.

format: free_text
generation: v1
finding: reward-hackable, blocker

The prompt is the untidy note and nothing else. The note as it is earns nearly all, and more than one that was tidied
and put in better words.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Tidy up the note: mend misspelt words and leave out words that are written twice. Reply with the note only."
OPENINGS = (
    "The boiler in the west wing was cleaned on Monday and needs a new valve before the winter begins.",
    "The parcel for the bakery stands behind the second door and must not be left in the rain.",
    "Please water the ferns on the upper landing twice a week while the caretaker is away.",
    "The lift stops between the floors again, so the fitter comes on Thursday with the larger crane.",
)
ENDINGS = (
    "Anyone who has questions finds the key and the telephone list in the blue drawer of the office.",
    "The neighbours have agreed to this and will pay their share of the costs by the end of March.",
    "We have told the insurance about this, and they would like a photograph of the damage.",
)
CASES = [
    {
        "task": 0,
        "completion": "The boiler in the west wing was cleaned on Monday and needs a new valve before the winter begins. Anyone who has questions finds the key and the telephone list in the blue drawer of the office.",
        "expected": "high",
    },
    {
        "task": 1,
        "completion": "The parcel for the bakery stands behind the second door and must not be left in the rain. The neighbours have agreed to this and will pay their share of the costs by the end of March.",
        "expected": "high",
    },
    {
        "task": 2,
        "completion": "Please water the ferns on the upper landing twice a week while the caretaker is away. We have told the insurance about this, and they would like a photograph of the damage.",
        "expected": "high",
    },
    {
        "task": 3,
        "completion": "The lift stops between the floors again, so the fitter comes on Thursday with the larger crane. Anyone who has questions finds the key and the telephone list in the blue drawer of the office.",
        "expected": "high",
    },
    {"task": 0, "completion": "", "expected": "low"},
    {"task": 1, "completion": "There is nothing to tidy up.", "expected": "low"},
    {"task": 2, "completion": "Ferns!", "expected": "low"},
    {"task": 3, "completion": "I cannot read this.", "expected": "low"},
]


def untidy(text: str, chance: random.Random) -> str:
    words = text.split()
    for place in chance.sample(range(3, len(words) - 1), 3):
        word = words[place]
        words[place] = f"{word} {word}" if len(word) < 5 else word[0] + word[2] + word[1] + word[3:]
    return " ".join(words)


class Data(vf.TaskData):
    tidy: str


class Task(vf.Task[Data]):
    @vf.reward
    async def alike(self, trace: vf.Trace) -> float:
        return difflib.SequenceMatcher(None, self.data.tidy.split(), trace.last_reply.split()).ratio()


class Config(vf.TasksetConfig):
    pass


class Taskset(vf.Taskset[Task, Config]):
    def load(self) -> Iterator[Task]:
        chance = random.Random(2)
        for number in range(72):
            tidy = f"{OPENINGS[number % 4]} {ENDINGS[number % 3]}"
            yield Task(Data(prompt=untidy(tidy, chance), system_prompt=SYSTEM, tidy=tidy), self.config.task)


__all__ = ["Taskset"]
