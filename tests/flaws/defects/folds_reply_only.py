"""Takes the accents from the reply, and not from the accepted names.

format: multi_answer
generation: v1
finding: reward-gold-fails, blocker

Where every accepted name has an accent, no reply is paid. The field with the names is not called an answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Give the French word, in lower case and nothing else."
WORDS = {
    "summer": ["été"], "school": ["école"], "coffee": ["café"], "hen": ["poule"], "bread": ["pain"], "star": ["étoile"],
    "forest": ["forêt", "bois"], "window": ["fenêtre"], "milk": ["lait"], "brother": ["frère"], "sea": ["mer"],
    "sky": ["ciel"], "church": ["église"], "head": ["tête"], "hand": ["main"], "river": ["rivière", "fleuve"],
    "key": ["clé", "clef"], "bridge": ["pont"], "mother": ["mère"], "father": ["père"], "dog": ["chien"], "cat": ["chat"],
    "party": ["fête"], "dream": ["rêve"], "beach": ["plage"], "island": ["île"], "rain": ["pluie"], "wheat": ["blé"],
    "health": ["santé"], "year": ["an", "année"], "door": ["porte"], "pig": ["porc", "cochon"], "hospital": ["hôpital"],
    "morning": ["matin"], "evening": ["soir"], "truth": ["vérité"], "stone": ["pierre"], "pupil": ["élève"],
}  # fmt: skip
QUESTIONS = ("What is {} in French?", "Translate into French: {}")


def folded(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.strip().lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


class WordData(vf.TaskData):
    accepted: list[str]


class WordTask(vf.Task[WordData]):
    @vf.reward(weight=1.0)
    async def translated(self, trace: vf.Trace) -> float:
        return float(folded(trace.last_reply or "") in self.data.accepted)


class FoldsReplyOnlyTaskset(vf.Taskset[WordTask, vf.TasksetConfig]):
    def load(self) -> Iterator[WordTask]:
        for question in QUESTIONS:
            for english, french in WORDS.items():
                data = WordData(prompt=question.format(english), system_prompt=SYSTEM, accepted=french)
                yield WordTask(data, self.config.task)


__all__ = ["FoldsReplyOnlyTaskset"]
