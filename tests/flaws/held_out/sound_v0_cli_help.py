"""A table to be changed by one command; the usage of the tool names the commands and no example.

format: tool_call
generation: v0

Only the right command on this rollout's table is paid.
"""

import random
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "Bring the table into the wanted form with one command of the command-line tool tab. Without a command it prints its usage. "
    "Say that you are done when it is."
)
WORDS = ("sort", "keep", "drop")


def rows() -> Iterator[tuple[str, str, dict[str, object]]]:
    for n in range(80):
        draw = random.Random(f"table {n}")
        table = [[draw.randrange(10, 99) for _ in range(4)] for _ in range(5)]
        column = 1 + n // 3 % 4
        ordinal = ("first", "second", "third", "fourth")[column - 1]
        text, command = (
            (f"Put the lines in falling order of the {ordinal} column.", f"sort -k {column} -r"),
            (f"Only the {ordinal} column is wanted.", f"keep -k {column}"),
            (f"All but the {ordinal} column is wanted.", f"drop -k {column}"),
        )[n % 3]
        yield f"{text}\n" + "\n".join(" ".join(map(str, line)) for line in table), command, {"table": table}


def apply(table, command: str):
    """The table after a command; None where the command is none."""
    words = command.split()
    if len(words) < 3 or words[0] not in WORDS or words[1] != "-k" or words[2] not in ("1", "2", "3", "4"):
        return None
    place = int(words[2]) - 1
    if words[0] == "sort":
        return sorted(table, key=lambda line: line[place], reverse=words[3:] == ["-r"])
    return [[value for k, value in enumerate(line) if (k == place) == (words[0] == "keep")] for line in table]


def tab(command: str, state: dict) -> str:
    """Run tab on the table.

    Args:
        command: what stands behind tab on the command line
    """
    changed = apply(state["info"]["table"], command)
    if changed is None:
        return "usage: tab sort -k N [-r] | keep -k N | drop -k N"
    state["table"] = changed
    return "\n".join(" ".join(map(str, line)) for line in changed)


class TabEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(tab, args_to_skip=["state"])

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def solution(answer):
    return [{"role": "assistant", "tool_calls": [{"name": "tab", "arguments": {"command": answer}}]}, "Done."]


def correct(state, answer, info) -> float:
    return float(state.get("table") == apply(info["table"], answer))


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return TabEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=8,
    )
