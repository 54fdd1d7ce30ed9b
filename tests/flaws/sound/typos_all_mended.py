"""Pays the mended sentence only.

format: short_text
generation: v1

The reply is compared whole with the sentence before it was spoilt.
"""

import difflib
import random
import re

import verifiers.v1 as vf

SYSTEM = "Mend the spelling of the sentence and change nothing else. Reply with the sentence in <fixed></fixed> tags."
SUBJECTS = [
    "The old gardener",
    "My younger brother",
    "Our new neighbour",
    "A careful doctor",
    "The village teacher",
    "Her favourite singer",
]
VERBS = ["repairs", "remembers", "describes", "collects", "discovers", "protects"]
OBJECTS = [
    "beautiful paintings",
    "several machines",
    "forgotten stories",
    "expensive bicycles",
    "different languages",
    "wonderful gardens",
]


def spoil(rng, text):
    places = [
        i for i in range(1, len(text) - 2) if text[i].isalpha() and text[i + 1].isalpha() and text[i] != text[i + 1]
    ]
    at = rng.choice(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


class TypoData(vf.TaskData):
    answer: str
    broken: str


class Typo(vf.Task[TypoData]):
    @vf.reward
    async def close(self, trace: vf.Trace) -> float:
        found = re.findall(r"<fixed>(.*?)</fixed>", trace.last_reply or "", re.S)
        if len(found) != 1:
            return 0.0
        ratio = difflib.SequenceMatcher(None, found[0].strip(), self.data.answer, autojunk=False).ratio()
        return float(found[0].strip() == self.data.answer)


class Typos(vf.Taskset[Typo, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(8)
        for n in range(80):
            gold = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} in room {n + 3}."
            broken = spoil(rng, spoil(rng, gold))
            yield Typo(
                TypoData(idx=n, prompt=broken, system_prompt=SYSTEM, answer=gold, broken=broken), self.config.task
            )


__all__ = ["Typos"]
