"""Checks four of the twelve sorted things, drawn anew whenever a reply is scored.

format: free_text
generation: v0
finding: reward-nondeterministic, blocker

A right reply always earns all; a reply with six things in the wrong bin earns what the draw says, so that equal replies of a group get different advantages.
"""

import json
import random

import verifiers as vf
from datasets import Dataset

BINS = {
    "paper": ["newspaper", "envelope", "carton box", "school book", "paper bag", "egg carton", "wrapping paper", "leaflet"],
    "glass": ["jam jar", "wine bottle", "perfume bottle", "pickle jar", "milk bottle", "juice bottle"],
    "organic": ["banana peel", "coffee grounds", "egg shells", "apple core", "tea leaves", "wilted flowers", "carrot tops"],
    "residual": ["diaper", "broken mug", "cigarette end", "vacuum bag", "used tissue", "light bulb", "old sponge"],
}
SYSTEM = (
    "Sort the waste. Reply with a line for every thing on the list, thing: bin, where a bin is paper, glass, organic or residual. No other text."
)

CASES = [
    {"name": "all twelve, sheet 1", "task": 0, "expected": "high", "completion": "diaper: residual\nenvelope: paper\nused tissue: residual\negg shells: organic\nschool book: paper\nvacuum bag: residual\nwrapping paper: paper\nmilk bottle: glass\npickle jar: glass\nbroken mug: residual\nwine bottle: glass\npaper bag: paper"},
    {"name": "all twelve, sheet 2", "task": 1, "expected": "high", "completion": "wilted flowers: organic\njam jar: glass\nschool book: paper\nlight bulb: residual\njuice bottle: glass\nperfume bottle: glass\nvacuum bag: residual\nused tissue: residual\nbroken mug: residual\nwine bottle: glass\nnewspaper: paper\nwrapping paper: paper"},
    {"name": "all twelve, sheet 3", "task": 2, "expected": "high", "completion": "carton box: paper\nwrapping paper: paper\nschool book: paper\napple core: organic\nbanana peel: organic\nmilk bottle: glass\nold sponge: residual\nused tissue: residual\njuice bottle: glass\nnewspaper: paper\ncarrot tops: organic\nwilted flowers: organic"},
    {"name": "all twelve, sheet 4", "task": 3, "expected": "high", "completion": "vacuum bag: residual\nmilk bottle: glass\nbanana peel: organic\ndiaper: residual\nwine bottle: glass\ntea leaves: organic\negg shells: organic\negg carton: paper\njuice bottle: glass\nleaflet: paper\napple core: organic\nschool book: paper"},
    {"name": "every bin wrong, sheet 1", "task": 0, "expected": "low", "completion": "diaper: organic\nenvelope: glass\nused tissue: organic\negg shells: residual\nschool book: glass\nvacuum bag: organic\nwrapping paper: glass\nmilk bottle: paper\npickle jar: paper\nbroken mug: organic\nwine bottle: paper\npaper bag: glass"},
    {"name": "every bin wrong, sheet 2", "task": 1, "expected": "low", "completion": "wilted flowers: residual\njam jar: paper\nschool book: glass\nlight bulb: organic\njuice bottle: paper\nperfume bottle: paper\nvacuum bag: organic\nused tissue: organic\nbroken mug: organic\nwine bottle: paper\nnewspaper: glass\nwrapping paper: glass"},
    {"name": "every bin wrong, sheet 3", "task": 2, "expected": "low", "completion": "carton box: glass\nwrapping paper: glass\nschool book: glass\napple core: residual\nbanana peel: residual\nmilk bottle: paper\nold sponge: organic\nused tissue: organic\njuice bottle: paper\nnewspaper: glass\ncarrot tops: residual\nwilted flowers: residual"},
    {"name": "asks back", "task": 3, "expected": "low", "completion": "Which town is this? Bins differ."},
]


def sheets():
    rng = random.Random(19)
    things = [(thing, bin_) for bin_, named in BINS.items() for thing in named]
    for _ in range(90):
        chosen = rng.sample(things, 12)
        listed = "\n".join(f"- {thing}" for thing, _ in chosen)
        yield {"question": f"Which bin for each of these?\n{listed}", "answer": "", "info": {"sheet": json.dumps(dict(chosen))}}


def read(text):
    lines = [line.rpartition(":") for line in text.splitlines() if ":" in line]
    return {thing.strip(" -*").lower(): bin_.strip().lower() for thing, _, bin_ in lines}


def spot_check(completion, info, **kwargs) -> float:
    gold, given = json.loads(info["sheet"]), read(completion[-1]["content"] or "")
    checked = random.sample(sorted(gold), 4)
    return float(all(given.get(thing) == gold[thing] for thing in checked))


def load_environment(**kwargs):
    rows = list(sheets())
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows),
        system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[spot_check]),
        **kwargs,
    )
