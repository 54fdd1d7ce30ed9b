"""Copies the stock at the top level only, so that tools change the shelves of all rollouts.

format: tool_call
generation: v0
finding: reward-rollout-differs, blocker

After some rollouts the right calls end in another stock than the one that is expected, and earn nothing.
"""

from __future__ import annotations

import random
from copy import deepcopy

import verifiers as vf
from datasets import Dataset

SHELVES = {
    "north": {"screws": 200, "nails": 150, "hooks": 60},
    "south": {"screws": 90, "nails": 210, "hooks": 45},
    "attic": {"screws": 30, "nails": 20, "hooks": 80},
}
SYSTEM = "You keep the shelves north, south and attic. Do what the note asks with the tools, then say that you are done."


def count(shelf: str, shelves: dict) -> str:
    """Say what lies on a shelf.

    Args:
        shelf: "north", "south" or "attic"
    """
    return ", ".join(f"{number} {article}" for article, number in shelves[shelf].items())


def carry(article: str, number: int, source: str, target: str, shelves: dict) -> str:
    """Carry articles from one shelf to another.

    Args:
        article: "screws", "nails" or "hooks"
        number: how many
        source: the shelf to take from
        target: the shelf to put on
    """
    if not 0 < number <= shelves[source][article]:
        raise ValueError(f"there are {shelves[source][article]} {article} in {source}")
    shelves[source][article] -= number
    shelves[target][article] += number
    return "carried"


class ShelvesEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        for tool in (count, carry):
            self.add_tool(tool, args_to_skip=["shelves"])

    async def setup_state(self, state, **kwargs):
        state["shelves"] = dict(SHELVES)
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "shelves": state["shelves"]}


async def in_place(state, info) -> float:
    shelves = state.get("shelves")
    return float(bool(shelves) and shelves == info["after"])


def load_environment(size: int = 90) -> vf.Environment:
    draw, rows = random.Random(5), []
    for _ in range(size):
        after = deepcopy(SHELVES)
        source, target = draw.sample(sorted(SHELVES), 2)
        article, number = draw.choice(["screws", "nails", "hooks"]), draw.randint(1, 19)
        after[source][article] -= number
        after[target][article] += number
        note = f"Please carry {number} {article} from {source} to {target}."
        rows.append({"question": note, "answer": "", "info": {"after": after}})
    rubric = vf.Rubric(funcs=[in_place])
    return ShelvesEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=rubric, max_turns=8)
