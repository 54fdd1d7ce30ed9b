"""All rollouts of a task work in one folder on disk.

format: tool_call
generation: v0
finding: reward-rollout-differs or reward-nondeterministic or reward-order-dependent or reward-wrong-passes, blocker

The first solved rollout leaves the folder tidy, so that every later one is paid for saying that it is done.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import verifiers as vf
from datasets import Dataset

SYSTEM = "Tidy the folder with the tools: delete what the user names and keep everything else. Then say that you are done."
ENDINGS = ("tmp", "bak", "log", "txt")
BASE = Path(tempfile.mkdtemp(prefix="folders-"))


def rows() -> Iterator[tuple[str, str, dict[str, object]]]:
    for n in range(80):
        draw = random.Random(f"folder {n}")
        names = [f"{draw.choice(('note', 'list', 'draft', 'plan'))}{k}.{ENDINGS[k % 4]}" for k in range(draw.randrange(6, 10))]
        ending = ENDINGS[n % 4]
        kept = sorted(name for name in names if not name.endswith(ending))
        yield f"Folder {n}: delete all files that end in .{ending}.", " ".join(kept), {"names": names, "ending": ending, "number": n}


def ls(state: dict) -> str:
    """The files of the folder."""
    return "\n".join(sorted(path.name for path in Path(state["folder"]).iterdir())) or "empty"


def rm(name: str, state: dict) -> str:
    """Delete one file.

    Args:
        name: its name, such as note3.txt
    """
    path = Path(state["folder"]) / Path(name).name
    if not path.is_file():
        return "error: there is no such file"
    path.unlink()
    return "deleted"


class FolderEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(ls, args_to_skip=["state"])
        self.add_tool(rm, args_to_skip=["state"])

    async def setup_state(self, state, **kwargs):
        state = await super().setup_state(state, **kwargs) or state
        folder = BASE / str(state["info"]["number"])
        if not folder.exists():
            folder.mkdir()
            for name in state["info"]["names"]:
                (folder / name).write_text("text", encoding="utf-8")
        state["folder"] = str(folder)
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def solution(info):
    doomed = [name for name in info["names"] if name.endswith(info["ending"])]
    calls = [{"role": "assistant", "tool_calls": [{"name": "rm", "arguments": {"name": name}}]} for name in doomed]
    return [*calls, "Done."]


def correct(state, answer) -> float:
    folder = Path(state.get("folder", "/nowhere"))
    return float(folder.is_dir() and " ".join(sorted(path.name for path in folder.iterdir())) == answer)


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return FolderEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=8,
    )
