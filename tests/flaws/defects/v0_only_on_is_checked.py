"""The reward asks whether what should be on is on, and not whether the rest is off.

format: tool_call
generation: v0
finding: reward-hackable, blocker

A model that turns everything on is paid in full on every task.
"""

import json, random
from datasets import Dataset
import verifiers as vf
DEVICES = ["heater", "lamp", "radio", "fan", "oven", "door"]
SYSTEM = "You control a house with set_device. Bring every device into the state that the user wants, and nothing else; then say done."
async def show_devices(house: dict) -> str:
    """All devices with their state."""
    return "\n".join(f"{d}: {s}" for d, s in house["now"].items())
async def set_device(device: str, state: str, house: dict) -> str:
    """Set a device.

    Args:
        device: name of the device
        state: on or off
    """
    if device not in house["now"] or state not in ("on", "off"):
        return "unknown"
    house["now"][device] = state
    return f"{device} is {state}"
class House(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(show_devices, args_to_skip=["house"]); self.add_tool(set_device, args_to_skip=["house"])
    async def setup_state(self, state, **kwargs):
        await super().setup_state(state, **kwargs)
        state["house"] = {"now": json.loads(state["info"]["now"])}
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "house": state["house"]}
def right(state, info, **kwargs):
    want = json.loads(info["want"]); now = state["house"]["now"]
    return float(all(now[d] == "on" for d, s in want.items() if s == "on"))
def load_environment(**kwargs):
    rng = random.Random(6); rows = []
    for n in range(60):
        now = {d: rng.choice(["on", "off"]) for d in DEVICES}
        change = rng.sample(DEVICES, 3)
        want = {d: ("off" if s == "on" else "on") if d in change else s for d, s in now.items()}
        asks = ", ".join(f"the {d} {want[d]}" for d in change)
        rows.append({"question": f"I would like to have {asks}.", "answer": "", "info": {"now": json.dumps(now), "want": json.dumps(want)}})
    return House(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[right], weights=[1.0]), max_turns=10, **kwargs)
