"""Scores probes in growing portions, so that a reward that hangs or ends its process costs seconds, not an hour."""

from __future__ import annotations

from collections.abc import Sequence

from prime_lab_mcp.lab.worker.cases import Case, CaseError, Scored
from prime_lab_mcp.lab.worker.host import Worker

FATAL = frozenset({"timeout", "exited", "flood", "memory", "nonsense"})
"""Problems that cost seconds each."""
PATIENCE = 3
"""Such cases after which no more are run: they tell as much as fifty would."""
_PORTIONS = (1, 2, 16, 64)


_WAITED_MS = 1000.0


def _costs(scored: Scored) -> bool:
    """Hung or broke its process, or waited in vain for a judge."""
    waited = "judge-unreachable" in scored.problems and scored.ms > _WAITED_MS
    return waited or bool(FATAL & set(scored.problems))


class Scorer:
    """One trial's scoring. `gave_up` once too many cases hung or broke their process."""

    def __init__(self, worker: Worker, *, case_timeout: float = 5) -> None:
        self.worker = worker
        self.case_timeout = case_timeout
        self.faulty: list[tuple[Case, Scored]] = []
        """Every case that hung or broke its process, whatever it was scored for."""

    @property
    def gave_up(self) -> bool:
        return len(self.faulty) >= PATIENCE

    async def score(self, cases: Sequence[Case]) -> list[Scored]:
        """One result per case, in order. What was not run any more has the problem `not-run`."""
        done: list[Scored] = []
        portion = 0
        while len(done) < len(cases) and not self.gave_up:
            size = _PORTIONS[min(portion, len(_PORTIONS) - 1)] if portion < 3 or self.faulty else len(cases)
            asked = cases[len(done) : len(done) + size]
            found = await self.worker.score(asked, case_timeout=self.case_timeout)
            self.faulty += [(c, s) for c, s in zip(asked, found, strict=True) if _costs(s)]
            done += found
            portion += 1
        told = CaseError("not-run", f"{len(self.faulty)} earlier cases hung or ended their process", "")
        return done + [Scored(case.id, None, errors=(told,), problems=("not-run",)) for case in cases[len(done) :]]
