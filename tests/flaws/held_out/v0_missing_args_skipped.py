"""Checks the arguments that were given, and no others.

format: tool_call
generation: v0
finding: reward-wrong-passes or reward-hackable, blocker

The loop runs over the arguments of the reply: a call without any has none that is wrong, and is paid in full.
"""

import json
import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "You can call set_heating(room: string, degrees: integer), set_light(room: string, level: integer) and "
    'play_music(room: string, genre: string). Reply with one call as a JSON object with the keys "name" and '
    '"arguments", in <tool_call></tool_call> tags.'
)
ROOMS = ("kitchen", "bedroom", "study", "hall", "bathroom")
GENRES = ("jazz", "folk", "techno", "opera")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        room = ROOMS[n % 5]
        if n % 3 == 0:
            asked, name, extra = f"Make the {room} {n % 8 + 17} degrees warm.", "set_heating", {"degrees": n % 8 + 17}
        elif n % 3 == 1:
            asked, name, extra = f"Put the light in the {room} to {n}.", "set_light", {"level": n}
        else:
            genre = GENRES[n % 4]
            asked, name, extra = f"I would like some {genre} in the {room}.", "play_music", {"genre": genre}
        yield f"{asked} ({n + 1})", json.dumps({"name": name, "arguments": {"room": room, **extra}})


def call(completion) -> dict:
    """The one tool call of the last message, or an empty one."""
    last = completion if isinstance(completion, str) else (completion[-1]["content"] if completion else "")
    found = re.findall(r"<tool_call>([^<]*)</tool_call>", str(last or "").rpartition("</think>")[2])
    try:
        said = json.loads(found[0][:4000]) if len(found) == 1 else {}
    except (ValueError, RecursionError):
        said = {}
    return said if isinstance(said, dict) and isinstance(said.get("arguments"), dict) else {}


def correct(completion, answer) -> float:
    said, gold = call(completion), json.loads(answer)
    if said.get("name") != gold["name"]:
        return 0.0
    for key, value in said["arguments"].items():
        if gold["arguments"].get(key) != value:
            return 0.0
    return 1.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[correct], weights=[1.0])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:65]), eval_dataset=Dataset.from_list(table[65:]), system_prompt=SYSTEM,
        rubric=rubric,
    )
