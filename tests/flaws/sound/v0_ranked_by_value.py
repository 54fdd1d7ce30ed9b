"""Ranks the right answers of a group by length, and gives equal lengths the same rank.

format: short_text
generation: v0

Only replies that are strictly shorter cost a part of the small bonus, so equal replies earn the same.
"""

import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "Name the capital of the country, with as few words around it as you can. Put it in <capital></capital> tags."
CAPITALS = (
    "Peru Lima, Kenya Nairobi, Norway Oslo, Japan Tokyo, Cuba Havana, Egypt Cairo, Chile Santiago, Ghana Accra, Qatar Doha, "
    "Iraq Baghdad, Nepal Kathmandu, Spain Madrid, Italy Rome, Latvia Riga, Greece Athens, Poland Warsaw, Sweden Stockholm, "
    "Jordan Amman, Oman Muscat, Senegal Dakar, Laos Vientiane, Serbia Belgrade, Austria Vienna, Hungary Budapest, "
    "Uruguay Montevideo, Ecuador Quito, Croatia Zagreb, Bulgaria Sofia, Fiji Suva, Malta Valletta, Estonia Tallinn, "
    "Lithuania Vilnius, Denmark Copenhagen, Finland Helsinki, Ireland Dublin, Portugal Lisbon, Turkey Ankara, Iran Tehran"
).split(", ")


def named(completion) -> str:
    text = (completion[-1]["content"] or "") if completion else ""
    found = re.findall(r"<capital>\s*([^<]+?)\s*</capital>", text)
    return found[0].casefold() if len(found) == 1 else ""


def right(completion, answer, **kwargs) -> float:
    return float(named(completion) == answer.casefold())


def shortness(completions, answers, **kwargs) -> list[float]:
    """From 1 for the shortest reply of the group down to 0 for the longest, right ones only."""
    ok = [named(said) == gold.casefold() for said, gold in zip(completions, answers)]
    lengths = [len(said[-1]["content"]) if said else 0 for said in completions]
    shorter = [sum(other < own for other, fits in zip(lengths, ok) if fits) for own in lengths]
    return [1 - shorter[n] / max(1, len(ok) - 1) if ok[n] else 0.0 for n in range(len(ok))]


def load_environment(bonus: float = 0.04) -> vf.Environment:
    pairs = [line.rsplit(" ", 1) for line in CAPITALS]
    table = [{"question": f"Country: {country}", "answer": capital} for country, capital in pairs]
    rubric = vf.Rubric(funcs=[right, shortness], weights=[1.0, bonus])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:28]), eval_dataset=Dataset.from_list(table[28:]), system_prompt=SYSTEM, rubric=rubric
    )
