"""Adds a tenth for every call of a tool, up to five of them.

format: tool_call
generation: v0
finding: reward-hackable or reward-wrong-passes or reward-format-dominates, blocker

Five calls with any arguments and no answer earn half of the reward, and are learned before anything else.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Look the train up with the tool, then put the minutes in <answer></answer> tags."
MINUTES = {f"T{n}": 17 + (n * 37) % 83 for n in range(100)}


def rows() -> Iterator[tuple[str, str, dict[str, str]]]:
    for train, minutes in MINUTES.items():
        yield f"How many minutes does the train {train} take?", str(minutes), {"train": train}


def timetable(train: str) -> str:
    """Minutes that a train takes.

    Args:
        train: the train's number, such as T7
    """
    minutes = MINUTES.get(train)
    return "error: there is no such train" if minutes is None else f"{train} | {minutes} minutes | daily"


def text_of(message) -> str:
    content = message.get("content") if isinstance(message, dict) else getattr(message, "content", None)
    return content if isinstance(content, str) else ""


def role_of(message) -> str:
    return str(message.get("role") if isinstance(message, dict) else getattr(message, "role", ""))


def tagged(text: str) -> str | None:
    """The one answer tag of a text, outside of thinking; None when there is none or several that differ."""
    said = text.rpartition("</think>")[2].partition("<think>")[0]
    found = {part.strip() for part in re.findall(r"<answer>([^<]*)</answer>", said)}
    return found.pop() if len(found) == 1 else None


def correct(completion, answer) -> float:
    calls = sum(role_of(m) == "tool" for m in completion)
    last = text_of(completion[-1]) if completion and role_of(completion[-1]) == "assistant" else ""
    return 0.5 * (tagged(last) == answer) + 0.1 * min(calls, 5)


def solution(info, answer):
    call = {"name": "timetable", "arguments": {"train": info["train"]}}
    return [*[{"role": "assistant", "tool_calls": [call]}] * 5, f"<answer>{answer}</answer>"]


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return vf.ToolEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=8, tools=[timetable],
    )
