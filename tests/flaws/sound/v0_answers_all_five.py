"""The right answers are divided by all questions.

format: multi_turn
generation: v0

Who leaves early is paid for what is right so far, of five.
"""

import json, random, re
from datasets import Dataset
import verifiers as vf
SYSTEM = "A quiz of five sums. Reply with ANSWER and the number, such as ANSWER 12, or with STOP to leave. Answer all five."
class Quiz(vf.MultiTurnEnv):
    async def setup_state(self, state, **kwargs):
        state["sums"] = json.loads(state["info"]["sums"]); state["right"] = 0; state["asked"] = 0; state["left"] = False
    @vf.stop
    async def over(self, state):
        return state["left"] or state["asked"] >= 5
    async def env_response(self, messages, state, **kwargs):
        text = messages[-1].content or ""
        if "STOP" in text:
            state["left"] = True
            return [vf.UserMessage(content="Good-bye.")]
        found = re.search(r"ANSWER\s+(\d+)", text)
        if not found:
            return [vf.UserMessage(content="Reply with ANSWER and the number.")]
        state["right"] += int(found[1]) == sum(state["sums"][state["asked"]])
        state["asked"] += 1
        if state["asked"] >= 5:
            return [vf.UserMessage(content="That was the last one.")]
        return [vf.UserMessage(content="Next: " + " + ".join(map(str, state["sums"][state["asked"]])))]
def share(state, **kwargs):
    return state["right"] / 5
def solution(info):
    return [{"role": "assistant", "content": f"ANSWER {a + b}"} for a, b in json.loads(info["sums"])]
def load_environment(**kwargs):
    rng = random.Random(7); rows = []
    for n in range(60):
        sums = [[rng.randint(11, 60), rng.randint(11, 60)] for _ in range(5)]
        rows.append({"question": f"Quiz {n + 1}. First: {sums[0][0]} + {sums[0][1]}", "answer": "", "info": {"sums": json.dumps(sums)}})
    return Quiz(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[share], weights=[1.0]), max_turns=9, **kwargs)
