"""Pays the share of pairs of queens that do not attack each other.

format: json
generation: v1
finding: reward-search-hole, blocker

An empty list, or one queen, has no pair and earns everything; no solution is stored, so only the search can tell.
"""

import itertools
import json
import re

import verifiers.v1 as vf

SYSTEM = "Place the queens so that none attacks another. Answer with a JSON list of columns, one per row, e.g. [1, 3, 0, 2]."


class QueensData(vf.TaskData):
    size: int
    fixed: dict[str, int]


class QueensTask(vf.Task[QueensData]):
    @vf.reward(weight=1.0)
    async def peaceful(self, trace: vf.Trace) -> float:
        m = re.search(r"\[[\d,\s]*\]", trace.last_reply or "")
        if m is None:
            return 0.0
        cols = json.loads(m[0])
        if any(c >= self.data.size for c in cols):
            return 0.0
        pairs = list(itertools.combinations(enumerate(cols), 2))
        bad = sum(a == b or abs(a - b) == abs(i - j) for (i, a), (j, b) in pairs)
        return 1.0 - bad / max(1, len(pairs))


class QueensTaskset(vf.Taskset[QueensTask, vf.TasksetConfig]):
    def load(self):
        for size in range(5, 13):
            for row in range(size):
                prompt = f"Board of {size} x {size}; the queen of row {row} stands in column {(2 * row + 1) % size}."
                yield QueensTask(QueensData(prompt=prompt, system_prompt=SYSTEM, size=size, fixed={str(row): (2 * row + 1) % size}), self.config.task)


__all__ = ["QueensTaskset"]
