"""A number between 1 and 100 by halving; each question costs, and the solution needs as many as the number asks for.

format: multi_turn
generation: v0

The solutions halve the range, so they earn 0.5 to 0.9 by the task, and nobody who does not know the number does better for long.
"""

import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "I think of a whole number from 1 to 100. Say <try>N</try>; I answer higher or lower. You have nine tries, and each one after the first costs a tenth of the point."


class Number(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        state["tries"] = 0
        state["found"] = False

    @vf.stop
    async def over(self, state):
        return state["found"] or state["tries"] >= 9 or state.get("refused", False)

    async def env_response(self, messages, state, **kwargs):
        said = re.findall(r"<try>\s*(\d{1,3})\s*</try>", str(messages[-1].content or ""))
        if len(said) != 1:
            state["refused"] = True
            return [vf.UserMessage(content="That was no try.")]
        state["tries"] += 1
        number, hidden = int(said[0]), int(state["info"]["number"])
        state["found"] = number == hidden
        return [vf.UserMessage(content="Found." if state["found"] else "Higher." if number < hidden else "Lower.")]


def solution(info):
    def play(messages):
        low, high = 1, 100
        tried = None
        for message in messages:
            text = str(message["content"] or "")
            found = re.search(r"<try>(\d+)</try>", text) if message["role"] == "assistant" else None
            tried = int(found[1]) if found else tried
            if message["role"] == "user" and tried is not None and text.startswith("Higher"):
                low = tried + 1
            elif message["role"] == "user" and tried is not None and text.startswith("Lower"):
                high = tried - 1
        return f"<try>{(low + high) // 2}</try>"

    return play


def early(state, **kwargs) -> float:
    return max(0.0, 1.0 - 0.1 * (state["tries"] - 1)) if state["found"] else 0.0


def load_environment(**kwargs):
    draw = random.Random(5)
    rows = [
        {"question": f"Game {n + 1}: I have a number in mind.", "answer": "", "info": {"number": draw.randint(1, 100)}}
        for n in range(80)
    ]
    return Number(
        dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[early]), max_turns=10, **kwargs
    )
