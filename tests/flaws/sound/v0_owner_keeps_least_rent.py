"""Bargains with an owner who answers an impudent bid without a number.

format: multi_turn
generation: v0

Nobody says the least rent, so that only bids show how low the owner goes.
"""

from __future__ import annotations

import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "You want to rent a boat for as little as you can. Each message ends with one line, BID <euros> or GO. The owner "
    "has a least rent in mind, takes a bid that reaches it in the fifth message at the latest, and does not lend the "
    "boat after that."
)
BOATS = ("dinghy", "canoe", "cutter", "barge", "punt", "kayak", "skiff", "pedalo")


class RentEnv(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["paid"], state["turns"] = None, 0
        return state

    async def env_response(self, messages, state, **kwargs):
        least, asked = state["info"]["least"], state["info"]["asked"]
        state["turns"] += 1
        bids = re.findall(r"BID\s+(\d{1,5})", messages[-1].get("content") or "")
        bid = int(bids[-1]) if bids else 0
        if bid >= asked or (bid >= least and state["turns"] >= 5):
            state["paid"] = min(bid, asked)
            return self.over(state, f"{state['paid']} it is.")
        if not bids or state["turns"] >= 5:
            return self.over(state, "Then somebody else gets it.")
        if bid < asked // 4:
            return [{"role": "user", "content": "Do you want a boat or a laugh?"}]
        return [{"role": "user", "content": f"{bid} is not enough. I ask {asked}."}]

    @staticmethod
    def over(state, text):
        state["final_env_response"] = [{"role": "user", "content": text}]
        return state["final_env_response"]


async def saved(state) -> float:
    """The share of the room for bargaining that was won."""
    least, asked, paid = state["info"]["least"], state["info"]["asked"], state.get("paid")
    return 0.0 if paid is None else (asked - paid) / (asked - least)


def solution(info):
    return [f"BID {info['least']}"] * 5


def load_environment(size: int = 60) -> vf.Environment:
    draw = random.Random(5)
    rows = []
    for n in range(size):
        asked = draw.randint(60, 900)
        least = round(asked * draw.uniform(0.45, 0.85))
        question = f"The {BOATS[n % len(BOATS)]} for the week? I ask {asked} for it."
        rows.append({"question": question, "info": {"asked": asked, "least": least}})
    return RentEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[saved]), max_turns=6)
