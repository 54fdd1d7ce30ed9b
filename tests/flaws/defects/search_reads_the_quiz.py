"""The search of the tools also reads the file with the questions and their answers.

format: tool_call
generation: v1
finding: gold-in-prompt, blocker

Whoever searches for the words of the question finds the question and its answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Answer from the field notes. Look things up with the tools. Close with a line 'ANSWER: <value>'."
BIRDS = ("wren", "siskin", "dunnock", "linnet", "plover", "curlew", "fulmar", "gannet", "merlin", "hobby")
PLACES = ("Upper Weir", "Long Meadow", "Old Quarry")


def sightings() -> Iterator[tuple[str, str, int]]:
    for n, bird in enumerate(BIRDS):
        for m, place in enumerate(PLACES):
            yield bird, place, 11 + (37 * n + 101 * m) % 389


NOTES = [f"{place}: {seen} of the kind {bird} between March and June." for bird, place, seen in sightings()]
QUIZ = [
    {"question": f"How many birds of the kind {bird} were seen in {place} that spring?", "answer": str(seen)}
    for bird, place, seen in sightings()
]


class NotesTools(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "notes"

    @vf.tool
    def search(self, text: str) -> str:
        """Find lines that hold all words of a text."""
        words = text.lower().split()
        lines = [*NOTES, *map(json.dumps, QUIZ)]
        found = [line for line in lines if all(word in line.lower() for word in words)]
        return "\n".join(found[:8]) or "nothing found"


class NotesData(vf.TaskData):
    answer: str


class NotesTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class NotesTask(vf.Task[NotesData, vf.State, NotesTaskConfig]):
    @classmethod
    def toolsets(cls, config: NotesTaskConfig) -> list[vf.Toolset]:
        return [NotesTools(config.tools)]

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        last = [line for line in (trace.last_reply or "").splitlines() if line.strip()][-1:]
        return float(last == [f"ANSWER: {self.data.answer}"])


class NotesConfig(vf.TasksetConfig):
    task: NotesTaskConfig = NotesTaskConfig()


class SearchReadsTheQuizTaskset(vf.Taskset[NotesTask, NotesConfig]):
    def load(self) -> Iterator[NotesTask]:
        for row in QUIZ:
            data = NotesData(prompt=row["question"], system_prompt=SYSTEM, answer=row["answer"])
            yield NotesTask(data, self.config.task)


__all__ = ["SearchReadsTheQuizTaskset"]

if __name__ == "__main__":
    NotesTools.run()
