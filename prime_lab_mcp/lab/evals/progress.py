"""Counts what a running evaluation has finished, by following its results file as it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.results import Layout, decode, layout, score_line
from prime_lab_mcp.lab.evals.spec import EvalSpec

_KEPT = 4096
"""Bytes of a line: the end of a record holds its identity or its times in every layout."""


class Tally:
    """Running totals. A line is counted once it is whole."""

    def __init__(self, spec: EvalSpec) -> None:
        self._spec = spec
        self._layout: Layout | None = None
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self._last = b""
        """The end of the last line that was counted: where the file has another, it is another file."""
        self.rollouts = 0
        self.errors = 0
        self.scored = 0
        self._total = 0.0

    def count(self, path: Path | None) -> None:
        """Read a finished file from its start: exact, whatever it was before."""
        self._reset()
        self.follow(path)

    def follow(self, path: Path | None) -> None:
        """Read what was added since the last call; a file that shrank or was put in its place is read anew.

        A resumed run starts with fewer lines, and v0 replaces the file at its end by one in another order.
        """
        if path is None:
            return
        with path.open("rb") as source:
            # Numbers of files are used again, so only the content tells a file from the one before it.
            source.seek(self._offset - len(self._last))
            if source.read(len(self._last)) != self._last:
                self._reset()
                source.seek(0)
            for line in source:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._last = line[-_KEPT:]
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
