"""Any set of lamps that keeps all rules is right, and the rules of each puzzle are drawn from one stock

format: procedural
generation: v0

The rules of a held-out puzzle use the words of training puzzles in another selection: it is another puzzle. A set is
paid because it keeps the rules, not because it is the stored one, and the word for a puzzle without a set is paid where
there is none.
"""

import itertools
import json
import random
import re

import verifiers as vf
from datasets import Dataset

LAMPS = ["red", "green", "blue", "white", "amber"]
CASES = [
    {"task": 0, "completion": "ON: red, green, blue, white", "expected": "high"},
    {"task": 1, "completion": "ON: red, blue, white", "expected": "high"},
    {"task": 2, "completion": "ON: red, blue, white, amber", "expected": "high"},
    {"task": 4, "completion": "ON: NEVER", "expected": "high"},
    {"task": 9, "completion": "ON: NEVER", "expected": "high"},
    {"task": 0, "completion": "ON: red", "expected": "low"},
    {"task": 1, "completion": "ON: red", "expected": "low"},
    {"task": 4, "completion": "ON: red", "expected": "low"},
    {"task": 5, "completion": "ON: NEVER", "expected": "low"},
    {"task": 6, "completion": "ON: red", "expected": "low"},
]

SYSTEM = (
    "Find lamps that can be on together so that every rule holds. End with a line `ON: colour, colour`, or with "
    "`ON: NEVER` if no choice keeps the rules. Any right choice is paid."
)
SAID = {
    "both": "The {} lamp and the {} lamp are not on together.",
    "one": "The {} lamp or the {} lamp is on.",
    "then": "If the {} lamp is on, the {} lamp is on as well.",
}


def keeps(rules, on):
    for kind, one, other in rules:
        held = {"both": not (one in on and other in on), "one": one in on or other in on, "then": one not in on or other in on}
        if not held[kind]:
            return False
    return True


def choices(rules):
    sets = itertools.chain.from_iterable(itertools.combinations(LAMPS, n) for n in range(1, len(LAMPS) + 1))
    return [list(on) for on in sets if keeps(rules, on)]


def puzzles(number, seed):
    chance, made = random.Random(seed), []
    while len(made) < number:
        rules = [[chance.choice(list(SAID)), *chance.sample(LAMPS, 2)] for _ in range(8)]
        right = choices(rules)
        if (len(made) % 5 == 4) == (not right) and len(right) <= 3:
            made.append(rules)
    return [
        {
            "question": "\n".join(SAID[kind].format(one, other) for kind, one, other in rules),
            "answer": "",
            "info": json.dumps({"rules": rules}),
        }
        for rules in made
    ]


def kept(completion, info) -> float:
    lines = re.findall(r"^ON:(.*)$", completion[-1]["content"], re.M)
    if not lines:
        return 0.0
    said = {word.lower() for word in re.findall(r"\w+", lines[-1])}
    if said == {"never"}:
        return float(not choices(info["rules"]))
    return float(bool(said) and said <= set(LAMPS) and keeps(info["rules"], said))


def load_environment(seed: int = 4) -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(puzzles(80, seed)),
        eval_dataset=Dataset.from_list(puzzles(24, seed + 1)),
        system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[kept]),
    )
