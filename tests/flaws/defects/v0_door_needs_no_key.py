"""The door opens without the key that the rules demand.

format: multi_turn
generation: v0
finding: reward-hackable, blocker

A model whose first reply is `open door` is out of every cellar.
"""

import json, random, re
from datasets import Dataset
import verifiers as vf
SYSTEM = "You are locked in a cellar and want to get out. Each of your messages is one command: 'look', 'take <thing>', 'use <thing>' or 'open <thing>'. The door can only be opened with the key. You have 8 messages."
class Cellar(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        state["bag"] = []; state["out"] = False; state["n"] = 0; state["things"] = json.loads(state["info"]["things"])
    @vf.stop
    async def over(self, state):
        return state["out"] or state["n"] >= 8
    async def env_response(self, messages, state, **kwargs):
        state["n"] += 1
        found = re.search(r"(look|take|use|open)\s*(\w*)", (messages[-1].content or "").lower())
        if not found:
            return [vf.UserMessage(content="What?")]
        verb, thing = found[1], found[2]
        if verb == "look":
            return [vf.UserMessage(content="There is a " + ", a ".join(state["things"]) + " and a door. Something lies under one of them.")]
        if verb == "take" and thing == "key" and state.get("seen"):
            state["bag"].append("key")
            return [vf.UserMessage(content="You have the key.")]
        if verb == "use" and thing == state["things"][int(state["info"]["at"])]:
            state["seen"] = True
            return [vf.UserMessage(content="You find a key.")]
        if verb == "open" and thing == "door":
            state["out"] = True
            return [vf.UserMessage(content="You are out.")]
        return [vf.UserMessage(content="Nothing happens.")]
def out(state, **kwargs):
    return float(state["out"])
def load_environment(**kwargs):
    rng = random.Random(3); rows = []
    for n in range(60):
        things = rng.sample(["barrel", "shelf", "carpet", "bucket", "chest", "ladder"], 4)
        rows.append({"question": f"Cellar {n + 1}. You see nothing yet. There is a door.", "answer": "", "info": {"things": json.dumps(things), "at": rng.randrange(4)}})
    return Cellar(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[out], weights=[1.0]), max_turns=10, **kwargs)
