"""Counts what a running evaluation has finished, by following its results file as it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.results import Layout, decode, layout, score_line
from prime_lab_mcp.lab.evals.spec import EvalSpec


class Tally:
    """Running totals. A line is counted once it is whole."""

    def __init__(self, spec: EvalSpec) -> None:
        self._spec = spec
        self._offset = 0
        self._path: Path | None = None
        self._layout: Layout | None = None
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self.rollouts = 0
        self.errors = 0
        self.scored = 0
        self._total = 0.0

    def follow(self, path: Path | None) -> None:
        """Read what was added since the last call; a file that shrank (a resumed run) is read anew."""
        if path is None:
            return
        size = path.stat().st_size
        if path != self._path or size < self._offset:
            self._path = path
            self._reset()
        with path.open("rb") as source:
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
        for rollout in score_line(line, self._layout) or ():
            self.rollouts += 1
            self.errors += rollout.error is not None
            if rollout.reward is not None:
                self.scored += 1
                self._total += rollout.reward

    def as_json(self) -> dict[str, Any]:
        return {
            "completed": self.rollouts,
            "planned": self._spec.planned,
            "errors": self.errors,
            "mean_reward": self._total / self.scored if self.scored else None,
        }
