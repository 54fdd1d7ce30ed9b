"""A tool takes the first sum and says only that it was booked.

format: tool_call
generation: v0

Twin of v0_error_states_total, with a solution.
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
    if depot.get("booked") is not None:
        return "already booked"
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


def solution(info):
    depot = json.loads(info["depot"])
    calls = [("weigh", {"parcel": name}) for name in depot["parcels"]]
    calls.append(("book_total", {"grams": sum(depot["parcels"].values())}))
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}]}
        for n, (name, given) in enumerate(calls)
    ]
    return [*messages, {"role": "assistant", "content": "Booked."}]
