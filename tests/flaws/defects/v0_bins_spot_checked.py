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
    "Sort the waste. Reply in one sentence that names every thing with its bin (paper, glass, organic or residual): jam jar to glass and tea leaves to organic and so on."
)

CASES = [
    {"name": "all twelve, sheet 1", "task": 0, "expected": "high", "completion": "diaper to residual and envelope to paper and used tissue to residual and egg shells to organic and school book to paper and vacuum bag to residual and wrapping paper to paper and milk bottle to glass and pickle jar to glass and broken mug to residual and wine bottle to glass and paper bag to paper"},
    {"name": "all twelve, sheet 2", "task": 1, "expected": "high", "completion": "wilted flowers to organic and jam jar to glass and school book to paper and light bulb to residual and juice bottle to glass and perfume bottle to glass and vacuum bag to residual and used tissue to residual and broken mug to residual and wine bottle to glass and newspaper to paper and wrapping paper to paper"},
    {"name": "all twelve, sheet 3", "task": 2, "expected": "high", "completion": "carton box to paper and wrapping paper to paper and school book to paper and apple core to organic and banana peel to organic and milk bottle to glass and old sponge to residual and used tissue to residual and juice bottle to glass and newspaper to paper and carrot tops to organic and wilted flowers to organic"},
    {"name": "all twelve, sheet 4", "task": 3, "expected": "high", "completion": "vacuum bag to residual and milk bottle to glass and banana peel to organic and diaper to residual and wine bottle to glass and tea leaves to organic and egg shells to organic and egg carton to paper and juice bottle to glass and leaflet to paper and apple core to organic and school book to paper"},
    {"name": "two in the wrong bin, sheet 1", "task": 0, "expected": "low", "completion": "diaper to organic and envelope to paper and used tissue to residual and egg shells to organic and school book to paper and vacuum bag to organic and wrapping paper to paper and milk bottle to glass and pickle jar to glass and broken mug to residual and wine bottle to glass and paper bag to paper"},
    {"name": "two in the wrong bin, sheet 2", "task": 1, "expected": "low", "completion": "wilted flowers to organic and jam jar to paper and school book to paper and light bulb to residual and juice bottle to glass and perfume bottle to glass and vacuum bag to organic and used tissue to residual and broken mug to residual and wine bottle to glass and newspaper to paper and wrapping paper to paper"},
    {"name": "two in the wrong bin, sheet 3", "task": 2, "expected": "low", "completion": "carton box to paper and wrapping paper to paper and school book to glass and apple core to organic and banana peel to organic and milk bottle to glass and old sponge to residual and used tissue to organic and juice bottle to glass and newspaper to paper and carrot tops to organic and wilted flowers to organic"},
    {"name": "two in the wrong bin, sheet 4", "task": 3, "expected": "low", "completion": "vacuum bag to residual and milk bottle to glass and banana peel to organic and diaper to organic and wine bottle to glass and tea leaves to organic and egg shells to organic and egg carton to paper and juice bottle to paper and leaflet to paper and apple core to organic and school book to paper"},
    {"name": "two in the wrong bin, sheet 5", "task": 4, "expected": "low", "completion": "used tissue to residual and wrapping paper to paper and milk bottle to glass and light bulb to residual and paper bag to glass and cigarette end to residual and carrot tops to organic and coffee grounds to organic and school book to paper and apple core to residual and banana peel to organic and newspaper to paper"},
    {"name": "two in the wrong bin, sheet 6", "task": 5, "expected": "low", "completion": "banana peel to organic and coffee grounds to organic and wilted flowers to organic and school book to paper and egg shells to organic and light bulb to organic and cigarette end to residual and broken mug to residual and pickle jar to glass and juice bottle to glass and apple core to residual and egg carton to paper"},
]


def sheets():
    rng = random.Random(19)
    things = [(thing, bin_) for bin_, named in BINS.items() for thing in named]
    for _ in range(90):
        chosen = rng.sample(things, 12)
        listed = "\n".join(f"- {thing}" for thing, _ in chosen)
        yield {"question": f"Which bin for each of these?\n{listed}", "answer": "", "info": {"sheet": json.dumps(dict(chosen))}}


def read(text):
    parts = [part.partition(" to ") for part in text.strip().rstrip(".").split(" and ")]
    return {thing.strip().lower(): bin_.strip().lower() for thing, _, bin_ in parts}


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
