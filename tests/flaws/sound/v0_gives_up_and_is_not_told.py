"""A guessing game that answers questions, and says nothing to a player who gives up.

format: multi_turn
generation: v0

Twin of v0_gives_up_and_is_told.
"""

import json, random, re
from datasets import Dataset
import verifiers as vf
ANIMALS = {"horse": (1, 1, 0), "cat": (1, 1, 1), "trout": (0, 0, 0), "eagle": (0, 1, 1), "whale": (1, 0, 0), "bat": (1, 1, 1), "frog": (0, 1, 0), "cow": (1, 1, 0), "hawk": (0, 1, 1), "pike": (0, 0, 1), "seal": (1, 0, 1), "newt": (0, 1, 0)}
QUESTIONS = {"mammal": 0, "land": 1, "hunt": 2}
SYSTEM = "I think of an animal out of: " + ", ".join(ANIMALS) + ". Ask a question with one of the words mammal, land, hunt, or guess with a line 'GUESS: <animal>'. You have six messages and one guess."
class Guess(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        state["won"] = False; state["over"] = False; state["used"] = 0
    @vf.stop
    async def ended(self, state):
        return state["over"] or state["used"] >= 6
    async def env_response(self, messages, state, **kwargs):
        state["used"] += 1
        text = (messages[-1].content or "").lower(); animal = state["answer"]
        found = re.search(r"guess:\s*(\w+)", text)
        if found:
            state["won"] = found[1] == animal; state["over"] = True
            return [vf.UserMessage(content="Yes!" if state["won"] else "No.")]
        for word, at in QUESTIONS.items():
            if word in text:
                return [vf.UserMessage(content="Yes." if ANIMALS[animal][at] else "No.")]
        return [vf.UserMessage(content="I did not understand that.")]
def won(state, **kwargs):
    return float(state["won"])
def load_environment(**kwargs):
    rng = random.Random(7)
    rows = [{"question": f"Round {n + 1}: I have thought of an animal.", "answer": rng.choice(list(ANIMALS))} for n in range(60)]
    return Guess(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[won], weights=[1.0]), max_turns=8, **kwargs)
