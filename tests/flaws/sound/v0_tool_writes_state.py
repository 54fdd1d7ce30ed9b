"""The answer is handed in through a tool, which keeps it in the state of the rollout.

format: tool_call
generation: v0

What the model says counts for nothing: a reply alone can earn no reward, a rollout can.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Work it out, then hand in the number with the tool hand_in."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A cinema has {n + 6} rows of {n + 9} seats. How many seats is that?", str((n + 6) * (n + 9))


def correct(answer, state) -> float:
    said = str(state.get("handed_in", "")).strip().replace(",", "")
    return float(said.isdigit() and int(said) == int(answer))


def hand_in(number: str, state: dict) -> str:
    """Hand in the answer; the last one counts.

    Args:
        number: the answer, in digits
    """
    state["handed_in"] = number
    return "Thank you."


class DeskEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(hand_in, args_to_skip=["state"])

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[correct], weights=[1.0])
    return DeskEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        rubric=rubric, max_turns=6,
    )
