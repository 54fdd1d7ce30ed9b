"""Reads a key of the stored record that the prompt calls otherwise.

format: json
generation: v1
finding: reward-contradicts-prompt, blocker

The prompt asks for "departure_time", and the reward looks for "departure", the name of the column: who follows the
prompt never earns the third field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import verifiers.v1 as vf

PROMPT = """Read the announcement and reply with a JSON object in a ```json block with the keys "train", "platform" and
"departure_time" (as HH:MM):
- "train": the number of the train
- "platform": a number
- "departure_time": when the train leaves

{text}"""
FIELDS = ("train", "platform", "departure")


def rows() -> Iterator[tuple[str, dict[str, str]]]:
    for n in range(80):
        board = {"train": f"RE {n * 7 + 103}", "platform": str(n % 12 + 1), "departure": f"{n % 15 + 6:02}:{n * 7 % 60:02}"}
        text = f"{board['train']} leaves from platform {board['platform']} at {board['departure']}. Please mind the gap."
        yield PROMPT.format(text=text), board


class BoardData(vf.TaskData):
    board: dict[str, str]


class BoardTask(vf.Task[BoardData]):
    @vf.reward
    async def fields_right(self, trace: vf.Trace) -> float:
        blocks = re.findall(r"```json\s*(.*?)```", trace.last_reply or "", re.S)
        try:
            said = json.loads(blocks[-1]) if len(blocks) == 1 else None
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return 0.0
        return sum(str(said.get(name)) == self.data.board[name] for name in FIELDS) / len(FIELDS)


class BoardTaskset(vf.Taskset[BoardTask, vf.TasksetConfig]):
    def load(self) -> Iterator[BoardTask]:
        for prompt, board in rows():
            yield BoardTask(BoardData(prompt=prompt, board=board), self.config.task)


__all__ = ["BoardTaskset"]
