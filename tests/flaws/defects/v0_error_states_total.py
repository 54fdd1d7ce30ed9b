"""A tool refuses a wrong sum and states the right one in its error.

format: tool_call
generation: v0
finding: reward-hackable, blocker

A model that books 1 reads the sum in the answer and books that, without weighing anything. Nobody states a solution.
"""

import json, random
from datasets import Dataset
import verifiers as vf
SYSTEM = "A depot has parcels. Work out with weigh how heavy all parcels together are, and book the sum with book_total. Then reply with a short note."
async def weigh(parcel: str, depot: dict) -> str:
    """Weigh a parcel.

    Args:
        parcel: letter of the parcel, A to E
    """
    w = depot["parcels"].get(parcel.strip().upper())
    return f"{w} g" if w else "no such parcel"
async def book_total(grams: int, depot: dict) -> str:
    """Book the sum of all weights.

    Args:
        grams: the sum in grams
    """
    total = sum(depot["parcels"].values())
    if int(grams) != total:
        return f"error: total {grams} does not match the scale ({total})"
    depot["booked"] = int(grams)
    return "booked"
class Depot(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(weigh, args_to_skip=["depot"]); self.add_tool(book_total, args_to_skip=["depot"])
    async def setup_state(self, state, **kwargs):
        await super().setup_state(state, **kwargs)
        state["depot"] = json.loads(state["info"]["depot"])
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "depot": state["depot"]}
def booked(state, **kwargs):
    return float(state["depot"].get("booked") == sum(state["depot"]["parcels"].values()))
def load_environment(**kwargs):
    rng = random.Random(33); rows = []
    for n in range(60):
        parcels = {k: rng.randrange(120, 4000) for k in "ABCDE"[: rng.randrange(3, 6)]}
        rows.append({"question": f"Depot {n + 1} holds the parcels {', '.join(parcels)}.", "answer": "", "info": {"depot": json.dumps({"parcels": parcels})}})
    return Depot(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[booked], weights=[1.0]), max_turns=10, **kwargs)
