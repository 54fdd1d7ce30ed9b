"""Any path of the least length is paid.

format: procedural
generation: v1

There may be several shortest paths, of which the gold is one: a reply is walked along the edges, and has to be as
short as the shortest.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = (
    "Find a path of the least length; any such path is right. Put its stops in <answer></answer> tags, as A -> B -> C."
)


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def shortest(edges: list[str], start: str, goal: str) -> list[str]:
    """One of the shortest paths, or none."""
    before = {start: ""}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for edge in edges:
            if here in edge:
                there = edge.replace(here, "").replace("-", "")
                if there not in before:
                    before[there] = here
                    queue.append(there)
    path = [goal] if goal in before else []
    while path and path[0] != start:
        path.insert(0, before[path[0]])
    return path


def rows() -> Iterator[tuple[str, list[str], str]]:
    for n in range(78):
        draw = random.Random(1000 + n)
        start, goal = LETTERS[n % 26], LETTERS[(n % 26 + 3 + n // 26 * 5) % 26]
        others = draw.sample([letter for letter in LETTERS if letter not in (start, goal)], 7)
        layers = [[start], others[:2], others[2:4], others[4:6], [goal]]
        kept = [
            f"{left}-{right}" for one, two in zip(layers, layers[1:], strict=False) for left in one for right in two
        ]
        edges = [edge for edge in kept if draw.random() < 0.85] + [f"{others[6]}-{others[n % 6]}"]
        draw.shuffle(edges)
        path = shortest(edges, start, goal)
        if path:
            yield f"Roads: {', '.join(edges)}. How does one get from {start} to {goal}?", edges, " -> ".join(path)


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def stops(text: str | None) -> list[str] | None:
    """The stops of a path."""
    found = re.split(r"\s*(?:->|→|,|-|\s)\s*", (text or "")[:500].strip())
    return found if all(stop in LETTERS and len(stop) == 1 for stop in found) else None


class AnyShortestPathData(vf.TaskData):
    edges: list[str]
    answer: str


class AnyShortestPathTask(vf.Task[AnyShortestPathData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said, gold = stops(final(trace.last_reply or "")), stops(self.data.answer)
        if said is None or gold is None or (said[0], said[-1], len(said)) != (gold[0], gold[-1], len(gold)):
            return 0.0
        roads = {frozenset(edge.split("-")) for edge in self.data.edges}
        return float(all(frozenset(step) in roads for step in zip(said, said[1:], strict=False)))


class AnyShortestPathConfig(vf.TasksetConfig):
    """Nothing to set."""


class AnyShortestPathTaskset(vf.Taskset[AnyShortestPathTask, AnyShortestPathConfig]):
    def load(self) -> Iterator[AnyShortestPathTask]:
        for prompt, edges, answer in rows():
            yield AnyShortestPathTask(
                AnyShortestPathData(prompt=prompt, system_prompt=SYSTEM, edges=edges, answer=answer), self.config.task
            )


__all__ = ["AnyShortestPathTaskset"]
