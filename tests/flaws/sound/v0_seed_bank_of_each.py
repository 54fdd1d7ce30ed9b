"""Gives every rollout a seed bank of its own; what is moved has a code that no prompt states.

format: tool_call
generation: v0

Only the drawers at the end count, and they begin alike in each rollout.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from itertools import permutations

import verifiers as vf
from datasets import Dataset

SYSTEM = "You run the seed bank. Carry out the note with the tools, then say that you are done."
SEEDS = {"rye": "GR-04", "oats": "GR-09", "kale": "VG-21", "leek": "VG-27", "sage": "HB-13", "mint": "HB-16"}
DRAWERS = {f"D{n}": {code: 20 + (17 * n + 5 * m) % 60 for m, code in enumerate(SEEDS.values())} for n in range(1, 7)}


def open_drawer(drawer: str, drawers: dict) -> str:
    """List the bags in a drawer.

    Args:
        drawer: a drawer such as "D2"
    """
    return "\n".join(f"{code}: {bags} bags" for code, bags in sorted(drawers.get(drawer, {}).items())) or "no drawer"


def find_seed(name: str) -> str:
    """Find the code of a seed.

    Args:
        name: its name, such as "mint"
    """
    return SEEDS.get(name.lower(), "unknown")


def move_bags(code: str, taken_from: str, put_into: str, bags: int, drawers: dict) -> str:
    """Move bags from one drawer into another.

    Args:
        code: the code of the seed, such as "HB-16"
        taken_from: the drawer that holds them
        put_into: the drawer that gets them
        bags: how many
    """
    if taken_from == put_into or put_into not in drawers or not 0 < bags <= drawers.get(taken_from, {}).get(code, 0):
        return "error: nothing was moved"
    drawers[taken_from][code] -= bags
    drawers[put_into][code] += bags
    return "moved"


class SeedBank(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[find_seed], **kwargs)
        for tool in (open_drawer, move_bags):
            self.add_tool(tool, args_to_skip=["drawers"])

    async def setup_state(self, state, **kwargs):
        state = await super().setup_state(state, **kwargs) or state
        state["drawers"] = deepcopy(DRAWERS)
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return tool_args if tool_name == "find_seed" else {**tool_args, "drawers": state["drawers"]}


def notes() -> Iterator[tuple[str, dict[str, object]]]:
    draw = random.Random(11)
    moves = [(seed, first, second) for seed in SEEDS for first, second in permutations(DRAWERS, 2)]
    for seed, first, second in draw.sample(moves, 90):
        bags = draw.randint(2, 15)
        move = {"code": SEEDS[seed], "taken_from": first, "put_into": second, "bags": bags}
        yield f"Move {bags} bags of {seed} from {first} to {second}.", move


def solution(info):
    return [
        {"role": "assistant", "tool_calls": [{"name": "move_bags", "arguments": json.loads(info["move"])}]},
        "Done.",
    ]


def in_order(state, info) -> float:
    wanted, move = deepcopy(DRAWERS), json.loads(info["move"])
    move_bags(**move, drawers=wanted)
    return float(state.get("drawers") == wanted)


def load_environment() -> vf.Environment:
    table = [{"question": note, "answer": "", "info": {"move": json.dumps(move)}} for note, move in notes()]
    return SeedBank(
        dataset=Dataset.from_list(table[:70]),
        eval_dataset=Dataset.from_list(table[70:]),
        system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[in_order]),
        max_turns=8,
    )
