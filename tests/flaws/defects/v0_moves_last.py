"""Hands every rollout the same inner folders, so that what one rollout files is filed for all.

format: tool_call
generation: v0
finding: reward-rollout-differs, blocker

Nobody states a solution: only calls that the sentences of the prompt spell out change anything.
"""

from __future__ import annotations

import random
from copy import copy, deepcopy

import verifiers as vf
from datasets import Dataset

CABINET = {
    "D1": {"deed-7": 3, "will-2": 5, "map-12": 8},
    "D2": {"deed-9": 4, "map-12": 6},
    "D3": {"will-4": 9, "lease-3": 7},
}
SYSTEM = "You file papers in drawers. Do what is asked with the tools, then say that all is filed."


def look(drawer: str, cabinet: dict) -> str:
    """Say what lies in a drawer.

    Args:
        drawer: the drawer, e.g. "D1"
    """
    return ", ".join(f"{n} x {paper}" for paper, n in sorted(cabinet.get(drawer, {}).items())) or "nothing"


def refile(paper: str, origin: str, goal: str, number: int, cabinet: dict) -> str:
    """Put papers from one drawer into another one.

    Args:
        paper: which papers
        origin: the drawer to take from
        goal: the drawer to put into
        number: how many
    """
    if origin == goal or {origin, goal} - set(cabinet) or not 0 < number <= cabinet[origin].get(paper, 0):
        return "refused: there are not that many"
    cabinet[origin][paper] -= number
    cabinet[goal][paper] = cabinet[goal].get(paper, 0) + number
    return "filed"


class CabinetEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        for tool in (look, refile):
            self.add_tool(tool, args_to_skip=["cabinet"])

    async def setup_state(self, state, **kwargs):
        state["cabinet"] = copy(CABINET)
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "cabinet": state["cabinet"]}


def filed(state, info, **kwargs) -> float:
    now = sorted(f"{d}/{p}/{n}" for d, papers in state.get("cabinet", {}).items() for p, n in papers.items())
    return float(now == info["goal"])


def load_environment(size: int = 72) -> vf.Environment:
    draw, rows, known = random.Random(9), [], set()
    while len(rows) < size:
        cabinet, steps = deepcopy(CABINET), []
        for _ in range(2):
            origin, goal = draw.sample(sorted(cabinet), 2)
            paper = draw.choice(sorted(cabinet[origin]))
            number = draw.randint(1, 3)
            if refile(paper, origin, goal, number, cabinet) == "filed":
                steps.append(f"Refile {number} {paper} from {origin} to {goal}.")
        note = "\n".join(steps)
        if len(steps) == 2 and note not in known:
            known.add(note)
            goal = sorted(f"{d}/{p}/{n}" for d, papers in cabinet.items() for p, n in papers.items())
            rows.append({"question": note, "info": {"goal": goal}})
    rubric = vf.Rubric(funcs=[filed])
    return CabinetEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=rubric, max_turns=8)
