"""A tool says whether the reported room is right, as often as it is asked.

format: tool_call
generation: v0
finding: reward-hackable, blocker

A model that reports one room after the other until the answer is another one needs no notes.
"""

import json, random
from datasets import Dataset
import verifiers as vf
SYSTEM = "Find the room in which the item is. Read the notes with read_note, then report the room with report_room and finish with a short message."
ROOMS = ["attic", "cellar", "garage", "kitchen", "library", "study"]
async def read_note(number: int, house: dict) -> str:
    """Read a note.

    Args:
        number: 1 to 3
    """
    return house["notes"].get(str(number), "no such note")
async def report_room(room: str, house: dict) -> str:
    """Report the room in which the item is.

    Args:
        room: name of the room
    """
    if room not in ROOMS:
        return "no such room"
    if house.get("reported") is not None and house.get("reported") != house["room"]:
        pass
    house["reported"] = room
    return "right" if room == house["room"] else "wrong, look again"
class House(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(read_note, args_to_skip=["house"]); self.add_tool(report_room, args_to_skip=["house"])
    async def setup_state(self, state, **kwargs):
        await super().setup_state(state, **kwargs)
        state["house"] = json.loads(state["info"]["house"])
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "house": state["house"]}
def found(state, **kwargs):
    return float(state["house"].get("reported") == state["house"]["room"])
def load_environment(**kwargs):
    rng = random.Random(17); rows = []
    for n in range(60):
        order = rng.sample(ROOMS, 6); room = order[0]
        notes = {"1": f"It is neither in the {order[1]} nor in the {order[2]}.", "2": f"The {order[3]} and the {order[4]} were searched in vain.", "3": f"Nobody has been in the {order[5]} for years."}
        rows.append({"question": f"Where is the {rng.choice(['key', 'map', 'watch', 'letter'])} no. {n + 1}? The house has these rooms: {', '.join(ROOMS)}.", "answer": "", "info": {"house": json.dumps({"room": room, "notes": notes})}})
    return House(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[found], weights=[1.0]), max_turns=10, **kwargs)
