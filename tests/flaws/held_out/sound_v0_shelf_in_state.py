"""The tools change a shelf that every rollout has for itself, and the reward compares it with the wanted one.

format: tool_call
generation: v0

Nothing that is said counts, the beginning is never the end, and packets too many are wrong.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Bring the shelf to the wanted state with the tools, then say that you are done."
GOODS = ("tea", "rice", "salt", "flour")


def rows() -> Iterator[tuple[str, str, dict[str, object]]]:
    for n in range(100):
        goods, start, wanted = GOODS[n % 4], n % 7, 8 + n % 5
        
        yield f"Shelf {n} holds {start} packets of {goods}. It is to hold {wanted}.", str(wanted), {
            "goods": goods, "start": start, "wanted": wanted,
        }


def put(goods: str, packets: int, state: dict) -> str:
    """Put packets on the shelf; a negative number takes them away.

    Args:
        goods: what to put there, such as tea
        packets: how many
    """
    shelf = state["shelf"]
    if goods not in GOODS or shelf.get(goods, 0) + packets < 0:
        return "error: that cannot be done"
    shelf[goods] = shelf.get(goods, 0) + packets
    return f"The shelf holds {shelf[goods]} packets of {goods}."


class ShelfEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(put, args_to_skip=["state"])

    async def setup_state(self, state, **kwargs):
        state = await super().setup_state(state, **kwargs) or state
        state["shelf"] = {state["info"]["goods"]: state["info"]["start"]}
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def solution(info):
    call = {"name": "put", "arguments": {"goods": info["goods"], "packets": info["wanted"] - info["start"]}}
    return [{"role": "assistant", "tool_calls": [call]}, "Done."]


def correct(state, info) -> float:
    shelf = state.get("shelf", {})
    return float(shelf == {info["goods"]: info["wanted"]})


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return ShelfEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=6,
    )
