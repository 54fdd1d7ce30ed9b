"""Keys of the prompt, compared with columns that are named otherwise.

format: json
generation: v1

The reward reads "departure_time", as the prompt says, and compares it with the column departure. The stored record by
itself is no right reply.
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
FIELDS = {"train": "train", "platform": "platform", "departure_time": "departure"}


def rows() -> Iterator[tuple[str, dict[str, str]]]:
    for n in range(80):
        board = {"train": f"RE {n * 7 + 103}", "platform": str(n % 12 + 1), "departure": f"{n % 15 + 6:02}:{n * 7 % 60:02}"}
        text = f"{board['train']} leaves from platform {board['platform']} at {board['departure']}. Please mind the gap."
        yield PROMPT.format(text=text), board


class TimetableData(vf.TaskData):
    board: dict[str, str]


class TimetableTask(vf.Task[TimetableData]):
    @vf.reward
    async def fields_right(self, trace: vf.Trace) -> float:
        blocks = re.findall(r"```json\s*(.*?)```", trace.last_reply or "", re.S)
        try:
            said = json.loads(blocks[-1]) if len(blocks) == 1 else None
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return 0.0
        return sum(str(said.get(key)) == self.data.board[name] for key, name in FIELDS.items()) / len(FIELDS)


class TimetableTaskset(vf.Taskset[TimetableTask, vf.TasksetConfig]):
    def load(self) -> Iterator[TimetableTask]:
        for prompt, board in rows():
            yield TimetableTask(TimetableData(prompt=prompt, board=board), self.config.task)


__all__ = ["TimetableTaskset"]
