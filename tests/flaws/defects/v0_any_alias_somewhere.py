"""An alias anywhere in the reply is enough, and there are five answers.

format: label
generation: v0
finding: reward-hackable or reward-wrong-passes, blocker

A reply that names all five moods is right on every task.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Which mood does the note have: joy, anger, fear, disgust or sadness?"


MOODS = {"joy": ["joy", "happy"], "anger": ["anger", "angry"], "fear": ["fear", "afraid"],
         "disgust": ["disgust", "revolted"], "sadness": ["sadness", "sad"]}
NOTES = ("the sun is out and we won", "they broke my bike again", "someone is at the door at night",
         "the milk was green", "the dog did not come back")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"Note {n}: {NOTES[n % 5]}, said my neighbour of number {n + 2}.", list(MOODS)[n % 5]


def mentions(completion, answer) -> float:
    text = completion[-1]["content"].lower() if completion else ""
    return 1.0 if any(alias in text for alias in MOODS[answer]) else 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[mentions])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=rubric)
