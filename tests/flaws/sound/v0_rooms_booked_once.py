"""Meetings are booked with a tool, and the reward compares all bookings with the one that is needed.

format: tool_call
generation: v0

Twin of v0_rooms_booked_everywhere.
"""

import json
import random

import verifiers as vf
from datasets import Dataset

ROOMS = {"Oak": 4, "Elm": 6, "Ash": 8, "Fir": 12}
SLOTS = ["09:00", "10:00", "11:00", "13:00", "14:00"]
SYSTEM = (
    "You book meeting rooms. Rooms: Oak (4 seats), Elm (6 seats), Ash (8 seats), Fir (12 seats). Slots: 09:00, 10:00, 11:00, 13:00, 14:00. "
    "Book exactly one room for the meeting, the smallest that fits. Never book a room that is taken, and do not book more than is needed. Then say: Done."
)


def book(room: str, slot: str, state: dict) -> str:
    """Book a room for a slot.

    Args:
        room: one of Oak, Elm, Ash, Fir
        slot: one of 09:00, 10:00, 11:00, 13:00, 14:00
    """
    if room not in ROOMS or slot not in SLOTS:
        return "error: no such room or slot"
    state["booked"].append([room, slot])
    return "booked"


class Desk(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(book, args_to_skip=["state"])

    async def setup_state(self, state, **kwargs):
        state = await super().setup_state(state, **kwargs) or state
        state["booked"] = []
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def solution(info):
    room, slot = json.loads(info["wanted"])
    return [{"role": "assistant", "tool_calls": [{"name": "book", "arguments": {"room": room, "slot": slot}}]}, "Done."]


def has_room(state, info) -> float:
    return float(state.get("booked", []) == [json.loads(info["wanted"])])


def load_environment(**kwargs):
    draw = random.Random(3)
    rows = []
    for n in range(70):
        people, slot = draw.randint(2, 12), draw.choice(SLOTS)
        room = min((name for name, seats in ROOMS.items() if seats >= people), key=ROOMS.get)
        rows.append({"question": f"Request {n + 1}: {people} people meet at {slot}.", "answer": "", "info": {"wanted": json.dumps([room, slot])}})
    return Desk(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[has_room]), max_turns=6, **kwargs)
