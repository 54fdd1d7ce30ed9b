"""Scores probes in growing portions, so that a reward that hangs or ends its process costs seconds, not an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prime_lab_mcp.lab.worker.cases import Case, CaseError, Message, Scored
from prime_lab_mcp.lab.worker.host import Worker

FATAL = frozenset({"timeout", "exited", "flood", "memory", "nonsense"})
"""Problems that cost seconds each."""
PATIENCE = 3
"""Such cases after which no more are run: they tell as much as fifty would."""
_PORTIONS = (1, 2, 16, 64)


class Scorer:
    """One trial's scoring. `gave_up` once too many cases hung or broke their process."""

    def __init__(self, worker: Worker, *, case_timeout: float = 5) -> None:
        self.worker = worker
        self.case_timeout = case_timeout
        self.company: Mapping[int, Sequence[Sequence[Message]]] = {}
        """By task: completions that a group reward sees beside each."""
        self.faulty: list[tuple[Case, Scored]] = []
        """Every case that hung or broke its process, whatever it was scored for."""

    @property
    def gave_up(self) -> bool:
        return len(self.faulty) >= PATIENCE

    async def score(self, cases: Sequence[Case]) -> list[Scored]:
        """One result per case, in order. What was not run any more has the problem `not-run`."""
        cases = [replace(c, company=self.company[c.row]) if c.row in self.company else c for c in cases]
        done: list[Scored] = []
        portion = 0
        while len(done) < len(cases) and not self.gave_up:
            size = _PORTIONS[min(portion, len(_PORTIONS) - 1)] if portion < 3 or self.faulty else len(cases)
            asked = cases[len(done) : len(done) + size]
            found = await self.worker.score(asked, case_timeout=self.case_timeout)
            self.faulty += [(c, s) for c, s in zip(asked, found, strict=True) if FATAL & set(s.problems)]
            done += found
            portion += 1
        told = CaseError("not-run", f"{len(self.faulty)} earlier cases hung or ended their process", "")
        return done + [Scored(case.id, None, errors=(told,), problems=("not-run",)) for case in cases[len(done) :]]
