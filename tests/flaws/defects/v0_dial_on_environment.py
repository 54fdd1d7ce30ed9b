"""Keeps the lock that is being opened on the environment, which all rollouts share.

format: multi_turn
generation: v0
finding: reward-rollout-differs, blocker

Alone every game is right. Of many at once, all turn the dial of the one that began last. Nobody states an answer.
"""

import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "You open a lock with a dial from 1 to 60. Each turn, say <turn>N</turn>; you hear how the lock sounds."


class DialParser(vf.Parser):
    """The one number of the last message; None when there is none or several."""

    def parse_answer(self, completion):
        found = re.findall(r"<turn>\s*(\d{1,2})\s*</turn>", super().parse_answer(completion) or "")
        return int(found[0]) if len(found) == 1 else None


def opened(state, **kwargs) -> float:
    return float(state.get("opened", False))


class DialEnv(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        draw = random.Random(state["info"]["lock"])
        self.stops = [draw.randint(1, 60) for _ in range(2)]
        self.at = 0
        return state

    async def env_response(self, messages, state, **kwargs):
        number = self.parser.parse_answer(messages)
        if number is None:
            return [{"role": "user", "content": "Say <turn>N</turn>."}]
        gap = abs(number - self.stops[self.at])
        if gap == 0:
            self.at += 1
            if self.at == len(self.stops):
                state["opened"] = True
                state["final_env_response"] = [{"role": "user", "content": "The lock is open."}]
                return state["final_env_response"]
            return [{"role": "user", "content": "A click: go on with the next stop."}]
        return [{"role": "user", "content": "It is silent." if gap > 20 else "It hums." if gap > 5 else "It rattles."}]


def load_environment(size: int = 80) -> vf.Environment:
    table = [{"question": f"Lock {n + 1} of the vault, two stops.", "info": {"lock": n}} for n in range(size)]
    rubric = vf.Rubric(funcs=[opened])
    return DialEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        parser=DialParser(), rubric=rubric, max_turns=12,
    )
