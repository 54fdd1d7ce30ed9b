"""Scores probes in growing portions, so that a reward that hangs or ends its process costs seconds, not an hour.

A worker itself leaves out what comes after too many slow cases of one request (worker/serve.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prime_lab_mcp.lab.worker.cases import Case, CaseError, Message, Scored
from prime_lab_mcp.lab.worker.host import Worker

FATAL = frozenset({"timeout", "exited", "flood", "memory", "nonsense"})
"""Problems that cost seconds each."""
PATIENCE = 3
"""Such cases after which no more are run: they tell as much as fifty would."""
SLOW_MS = 2000.0
SPENT_MS = 60_000.0
"""What completions that take more than `SLOW_MS` may take together; the rest is not run."""
_WAITED_MS = 1000.0
_PORTIONS = (1, 2, 16, 64)


def _costs(scored: Scored) -> bool:
    """Hung or broke its process, or waited in vain for a judge."""
    waited = "judge-unreachable" in scored.problems and scored.ms > _WAITED_MS
    return waited or bool(FATAL & set(scored.problems))


class Scorer:
    """One trial's scoring. `gave_up` once too many cases hung, broke their process or were slow."""

    def __init__(self, worker: Worker, *, case_timeout: float = 5) -> None:
        self.worker = worker
        self.case_timeout = case_timeout
        self.company: Mapping[int, Sequence[Sequence[Message]]] = {}
        """By task: completions that a group reward sees beside each."""
        self.faulty: list[tuple[Case, Scored]] = []
        """Every case that hung or broke its process, whatever it was scored for."""
        self._slow_ms = 0.0
        self._left_out = False

    @property
    def gave_up(self) -> bool:
        return self._left_out or len(self.faulty) >= PATIENCE or self._slow_ms >= SPENT_MS

    async def score(self, cases: Sequence[Case], *, patience: int | None = None) -> list[Scored]:
        """One result per case, in order. What was not run any more has the problem `not-run`.

        With `patience`, cases go one at a time until so many of them hung or broke their process.
        """
        cases = [replace(c, company=self.company[c.row]) if c.row in self.company else c for c in cases]
        done: list[Scored] = []
        portion = 0
        enough = None if patience is None else len(self.faulty) + patience
        while len(done) < len(cases) and not self.gave_up and (enough is None or len(self.faulty) < enough):
            careful = portion < 3 or self._slow_ms
            size = _PORTIONS[min(portion, len(_PORTIONS) - 1)] if careful else len(cases)
            asked = cases[len(done) : len(done) + (1 if self.faulty or enough is not None else size)]
            found = await self.worker.score(asked, case_timeout=self.case_timeout)
            self.faulty += [(c, s) for c, s in zip(asked, found, strict=True) if _costs(s)]
            self._slow_ms += sum(s.ms for s in found if s.ms > SLOW_MS and not s.judges)
            self._left_out = self._left_out or any("not-run" in s.problems for s in found)
            done += found
            portion += 1
        told = CaseError("not-run", "earlier cases hung, ended their process or took too long", "")
        return done + [Scored(case.id, None, errors=(told,), problems=("not-run",)) for case in cases[len(done) :]]
