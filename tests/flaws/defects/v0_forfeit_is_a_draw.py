"""Pays a duel that ends by a missing move like a draw.

format: multi_turn
generation: v0
finding: reward-malformed-beats-wrong, blocker

Saying nothing is safe: it earns half of all on every task, and a model that does not play well yet earns less.
"""

from __future__ import annotations

import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "A duel over five rounds: both sides pick a number from 1 to 6, the higher one takes the round, but a 1 beats a 6. "
    "Send each pick as <pick>4</pick>. A reply without a pick ends the duel."
)


class DuelEnv(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["other"] = random.Random(state["info"]["seed"])
        state["points"], state["rounds"], state["ended"] = 0, 0, ""
        return state

    async def env_response(self, messages, state, **kwargs):
        found = re.findall(r"<pick>\s*([1-6])\s*</pick>", messages[-1].get("content") or "")
        if len(found) != 1:
            state["ended"] = "no pick"
            return self.over(state, "The duel is over.")
        mine, other = int(found[0]), state["other"].choice((5, 6, 6, 6, 5, 4))
        state["rounds"] += 1
        won = (mine, other) == (1, 6) or (mine > other and (other, mine) != (1, 6))
        state["points"] += won - (not won)
        if state["rounds"] == 5:
            state["ended"] = "won" if state["points"] > 0 else "lost"
            return self.over(state, f"I had {other}. The duel is over.")
        return [{"role": "user", "content": f"I had {other}. Your next pick?"}]

    @staticmethod
    def over(state, text):
        state["final_env_response"] = [{"role": "user", "content": text}]
        return state["final_env_response"]


async def result(state) -> float:
    return {"won": 1.0, "lost": 0.0}.get(state.get("ended"), 0.5)


def load_environment(size: int = 64) -> vf.Environment:
    rows = [{"question": f"Duel {n + 1}. Your first pick?", "info": {"seed": n}} for n in range(size)]
    return DuelEnv(
        dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[result]), max_turns=7
    )
