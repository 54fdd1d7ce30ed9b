"""A treasure on a grid; what is left of the way at the end is paid in part.

format: multi_turn
generation: v0

A step away takes back what the step nearer has earned. Twin of v0_treasure_steps_nearer.
"""

import random
import re

import verifiers as vf
from datasets import Dataset

STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
SYSTEM = "You look for a treasure on a grid of 9 x 9 fields. Each message is one step: <move>north</move>, south, east or west. You are told where you are and how far the treasure is. You have forty steps."


class Treasure(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        info = state["info"]
        state["at"], state["steps"] = list(info["start"]), 0

    @vf.stop
    async def over(self, state):
        return state["steps"] >= 40 or state["at"] == list(state["info"]["treasure"])

    async def env_response(self, messages, state, **kwargs):
        said = re.findall(r"<move>\s*(\w+)\s*</move>", str(messages[-1].content or "").lower())
        state["steps"] += 1
        if len(said) != 1 or said[0] not in STEPS:
            return [vf.UserMessage(content="That is no step.")]
        state["at"] = [max(0, min(8, a + d)) for a, d in zip(state["at"], STEPS[said[0]])]
        after = distance(state["at"], state["info"]["treasure"])
        return [vf.UserMessage(content=f"You are at {state['at'][0]}, {state['at'][1]}; the treasure is {after} steps away.")]


def distance(a, b):
    return sum(abs(x - y) for x, y in zip(a, b))


def found(state, **kwargs) -> float:
    return float(state["at"] == list(state["info"]["treasure"]))


def shaping(state, **kwargs) -> float:
    whole = distance(state["info"]["start"], state["info"]["treasure"])
    return max(0.0, 1 - distance(state["at"], state["info"]["treasure"]) / whole)


def solution(info):
    (x, y), (goal_x, goal_y) = info["start"], info["treasure"]
    sideways = ["east" if goal_x > x else "west"] * abs(goal_x - x)
    return [f"<move>{step}</move>" for step in [*sideways, *["north" if goal_y > y else "south"] * abs(goal_y - y)]]


def load_environment(**kwargs):
    draw = random.Random(8)
    rows = []
    for n in range(80):
        start, treasure = draw.sample([(x, y) for x in range(9) for y in range(9)], 2)
        rows.append({"question": f"Map {n + 1}: you stand at {start[0]}, {start[1]}. The treasure is {distance(start, treasure)} steps away.", "answer": "", "info": {"start": start, "treasure": treasure}})
    return Treasure(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[found, shaping], weights=[0.8, 0.2]), max_turns=45, **kwargs)
