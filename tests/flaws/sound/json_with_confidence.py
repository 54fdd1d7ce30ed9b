"""The reply is a JSON object with an option and a probability, scored by a proper rule.

format: choice_letter
generation: v0

The stored letter is only one of the two values; the other is the model's own.
"""

import json
import random
import re

import verifiers as vf
from datasets import Dataset

PAIRS = [("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Norway", "Oslo"), ("Peru", "Lima"), ("Kenya", "Nairobi"), ("Japan", "Tokyo"), ("Egypt", "Cairo"), ("Cuba", "Havana"), ("Greece", "Athens"), ("Poland", "Warsaw"), ("Austria", "Vienna"), ("Chile", "Santiago"), ("Finland", "Helsinki"), ("Ghana", "Accra"), ("Iran", "Tehran"), ("Iraq", "Baghdad"), ("Qatar", "Doha"), ("Nepal", "Kathmandu"), ("Portugal", "Lisbon"), ("Ireland", "Dublin"), ("Hungary", "Budapest"), ("Sweden", "Stockholm"), ("Denmark", "Copenhagen"), ("Canada", "Ottawa"), ("Vietnam", "Hanoi"), ("Syria", "Damascus"), ("Libya", "Tripoli"), ("Mali", "Bamako"), ("Senegal", "Dakar"), ("Uganda", "Kampala"), ("Zambia", "Lusaka")]
SYSTEM = """Choose one option. Reply with JSON only, like
{"choice": "B", "confidence": 0.7}
where confidence is the probability (0 to 1) that your choice is right."""


def brier(completion, answer) -> float:
    text = completion[-1]["content"]
    m = re.search(r"\{[^{}]*\}", text)
    if not m:
        return 0.0
    try:
        d = json.loads(m.group())
        p = float(d["confidence"])
        choice = d["choice"].strip().upper()
    except (ValueError, KeyError, AttributeError, TypeError):
        return 0.0
    if not 0 <= p <= 1 or choice not in ("A", "B", "C", "D"):
        return 0.0
    return 1 - (1 - p) ** 2 if choice == answer else max(0.0, 0.25 - p**2)


def load_environment(seed: int = 0):
    rng = random.Random(seed)
    rows = []
    for country, capital in PAIRS * 3:
        others = rng.sample([c for _, c in PAIRS if c != capital], 3)
        options = others + [capital]
        rng.shuffle(options)
        q = f"What is the capital of {country}? (variant {len(rows)})\n" + "\n".join(f"{l}. {o}" for l, o in zip("ABCD", options))
        rows.append({"question": q, "answer": "ABCD"[options.index(capital)]})
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[brier]))
