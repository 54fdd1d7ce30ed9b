"""Counts what a running evaluation has finished, by following its results file as it grows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.results import Layout, decode, layout, score_line
from prime_lab_mcp.lab.evals.spec import EvalSpec


class Tally:
    """Running totals. A line is counted once it is whole."""

    def __init__(self, spec: EvalSpec) -> None:
        self._spec = spec
        self._offset = 0
        self._file: tuple[int, int] | None = None
        self._layout: Layout | None = None
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self.rollouts = 0
        self.errors = 0
        self.scored = 0
        self._total = 0.0

    def follow(self, path: Path | None) -> None:
        """Read what was added since the last call; a file that shrank or was put in its place is read anew.

        A resumed run starts with fewer lines, and v0 replaces the file at its end by one in another order.
        """
        if path is None:
            return
        with path.open("rb") as source:
            told = os.fstat(source.fileno())
            if (told.st_dev, told.st_ino) != self._file or told.st_size < self._offset:
                self._file = (told.st_dev, told.st_ino)
                self._reset()
            source.seek(self._offset)
            for line in source:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._add(line)

    def _add(self, line: bytes) -> None:
        if self._layout is None:
            record = decode(line)
            if not isinstance(record, dict):
                return
            self._layout = layout(record)
        # An episode of several trained agents is one rollout of what was planned.
        agents = list(score_line(line, self._layout) or ())
        self.rollouts += bool(agents)
        self.errors += any(agent.error is not None for agent in agents)
        for agent in agents:
            if agent.reward is not None:
                self.scored += 1
                self._total += agent.reward

    def as_json(self) -> dict[str, Any]:
        return {
            "completed": self.rollouts,
            "planned": self._spec.planned,
            "errors": self.errors,
            "mean_reward": self._total / self.scored if self.scored else None,
        }
