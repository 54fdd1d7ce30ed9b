"""Options that are written alike.

format: choice_letter
generation: v1

Wrong options are right ones of other questions, so that none looks righter than the others.
"""

import random
import re

import verifiers.v1 as vf

SYSTEM = "Choose the right option. Finish with a line `Answer: X`, where X is one of A, B, C, D."
FACTS = [
    (
        "Which river flows through {}?",
        {
            "Paris": "Seine",
            "London": "Thames",
            "Rome": "Tiber",
            "Vienna": "Danube",
            "Prague": "Vltava",
            "Cologne": "Rhine",
            "Turin": "Po",
            "Florence": "Arno",
            "Lisbon": "Tagus",
            "Dresden": "Elbe",
            "Warsaw": "Vistula",
            "Seville": "Guadalquivir",
            "Bordeaux": "Garonne",
            "Lyon": "Rhone",
            "Cairo": "Nile",
            "Kyiv": "Dnieper",
        },
    ),
    (
        "In which country lies {}?",
        {
            "Graz": "Austria",
            "Turku": "Finland",
            "Vigo": "Spain",
            "Brno": "Czechia",
            "Ghent": "Belgium",
            "Cork": "Ireland",
            "Aarhus": "Denmark",
            "Lecce": "Italy",
            "Porto": "Portugal",
            "Lodz": "Poland",
            "Split": "Croatia",
            "Varna": "Bulgaria",
            "Bergen": "Norway",
            "Malmo": "Sweden",
            "Nantes": "France",
            "Leeds": "England",
        },
    ),
]


class ChoiceData(vf.TaskData):
    answer: str


class Choice(vf.Task[ChoiceData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        found = re.findall(r"^Answer:\s*([A-D])\s*$", trace.last_reply or "", re.M)
        return float(len(found) == 1 and found[0] == self.data.answer)


class Choices(vf.Taskset[Choice, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(7)
        n = 0
        for _ in range(3):
            for question, known in FACTS:
                for place, right in known.items():
                    wrong = rng.sample(sorted(set(known.values()) - {right}), 3)
                    options = [*wrong, right]
                    rng.shuffle(options)
                    at = next(i for i, o in enumerate(options) if o == right)
                    listed = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", options))
                    yield Choice(
                        ChoiceData(
                            idx=n,
                            prompt=f"{n + 1}) {question.format(place)}\n{listed}",
                            system_prompt=SYSTEM,
                            answer="ABCD"[at],
                        ),
                        self.config.task,
                    )
                    n += 1


__all__ = ["Choices"]
