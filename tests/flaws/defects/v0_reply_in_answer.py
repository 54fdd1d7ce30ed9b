"""The comparison of the reply with the capital is the wrong way round.

format: short_text
generation: v0
finding: reward-hackable or reward-wrong-passes, blocker

A vowel is in nearly every capital.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Reply with the name of the capital, nothing else."


CITIES = (
    "Austria Vienna Belgium Brussels Bulgaria Sofia Croatia Zagreb Denmark Copenhagen Estonia Tallinn Finland Helsinki "
    "France Paris Germany Berlin Greece Athens Hungary Budapest Iceland Reykjavik Ireland Dublin Italy Rome Latvia Riga "
    "Lithuania Vilnius Malta Valletta Norway Oslo Poland Warsaw Portugal Lisbon Romania Bucharest Serbia Belgrade "
    "Slovakia Bratislava Slovenia Ljubljana Spain Madrid Sweden Stockholm Switzerland Bern Ukraine Kyiv Japan Tokyo "
    "Kenya Nairobi Egypt Cairo Peru Lima Chile Santiago Cuba Havana Ghana Accra Nepal Kathmandu Oman Muscat Iraq Baghdad"
).split()


def rows() -> Iterator[tuple[str, str]]:
    for country, city in zip(CITIES[::2], CITIES[1::2], strict=True):
        yield f"What is the capital of {country}?", city


def correct(completion, answer) -> float:
    said = completion[-1]["content"].strip().lower() if completion else ""
    return 1.0 if said and said in answer.lower() else 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[correct])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=rubric)
