"""Stored rollouts through a worker: found in its taskset, scored in batches, alone or as the groups that they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio

from prime_lab_mcp.lab.evals.rescore_checks import REPLAYED, SAMPLE, RescoreError
from prime_lab_mcp.lab.evals.rescore_stored import Form, Record, Stored, records
from prime_lab_mcp.lab.evals.spec import IN_PROCESS, EvalSpec
from prime_lab_mcp.lab.worker import kept
from prime_lab_mcp.lab.worker.cases import Scored
from prime_lab_mcp.lab.worker.host import Worker

Unit = tuple[Stored, ...]
"""Rollouts that are scored together: one, or a whole group."""
_BATCH = 32
_TASKS_AT_ONCE = 500
_SECONDS = 1800.0
CASE_SECONDS = 30.0


@dataclass
class Survey:
    """What a results file holds, seen in a first pass."""

    tasks: dict[str, Record] = field(default_factory=dict)
    rollouts: dict[str, int] = field(default_factory=dict)
    scorable: int = 0
    several: bool = False

    @property
    def total(self) -> int:
        return sum(self.rollouts.values())


def survey(path: Path, form: Form, api: str) -> Survey:
    """Every task of a results file with the number of its rollouts."""
    seen = Survey()
    for stored in records(path, form, api):
        seen.tasks.setdefault(stored.task, form.task(stored.record))
        seen.rollouts[stored.task] = seen.rollouts.get(stored.task, 0) + 1
        seen.scorable += stored.scorable
        seen.several = seen.several or form.several(stored.record)
    return seen


@dataclass(frozen=True, slots=True)
class Scoring:
    """One worker with the places of the stored tasks in its taskset. `asked`: what all its tasks ask."""

    worker: Worker
    form: Form
    places: Mapping[str, kept.Place]
    located: kept.Located
    turns: bool
    fresh_runtime: bool

    async def score(self, units: Sequence[Unit]) -> list[list[Scored]]:
        """What every rollout of every unit earns."""
        found = await self.worker.rescore([self._case(n, u) for n, u in enumerate(units)], case_timeout=CASE_SECONDS)
        return [
            list(one.members) if len(one.members) == len(unit) else [one] * len(unit)
            for one, unit in zip(found, units, strict=True)
        ]

    def _case(self, number: int, unit: Unit) -> kept.Kept:
        row = self.places[unit[0].task].row
        assert row is not None
        payloads = [self.form.payload(stored.record) for stored in unit]
        record = {"group": payloads} if self.located.grouped else payloads[0]
        return kept.Kept(f"{number}-{unit[0].rollout.id}", row, record, self.turns, self.fresh_runtime)

    def units(self, path: Path, api: str) -> Iterator[Unit]:
        """What can be scored, in file order; groups whole, in the order of their first rollout."""
        fit = (s for s in records(path, self.form, api) if s.scorable and self.places[s.task].row is not None)
        if not self.located.grouped:
            yield from ((s,) for s in fit)
            return
        groups: dict[str, list[Stored]] = {}
        for stored in fit:
            groups.setdefault(stored.task, []).append(stored)
        yield from map(tuple, groups.values())

    def sample(self, path: Path, api: str, total: int) -> list[Unit]:
        """Units spread evenly over the file, about `SAMPLE` rollouts."""
        units = max(1, len(self.places)) if self.located.grouped else max(1, total)
        each = max(1, total // units)
        return list(islice(self.units(path, api), 0, None, max(1, units * each // SAMPLE)))

    async def batches(self, path: Path, api: str) -> AsyncIterator[tuple[list[Unit], list[list[Scored]]]]:
        """All units with what they earn. Raises RescoreError when it takes longer than half an hour."""
        deadline = anyio.current_time() + _SECONDS
        waiting = self.units(path, api)
        size = 1 if self.located.grouped else _BATCH
        while batch := await anyio.to_thread.run_sync(lambda: list(islice(waiting, size))):
            if anyio.current_time() > deadline:
                raise RescoreError(
                    f"scoring the stored rollouts took more than {_SECONDS / 60:g} minutes",
                    fix="Make the reward faster, or run run_eval with fewer examples.",
                    code="rescore-unfinished",
                )
            yield batch, await self.score(batch)


async def open_scoring(worker: Worker, spec: EvalSpec, form: Form, seen: Survey, *, turns: bool) -> Scoring:
    """The places of all stored tasks in a worker's taskset."""
    keys = list(seen.tasks)
    limit = min(kept.LIMIT, spec.num_examples * 10) if spec.infinite else kept.LIMIT
    parts: list[kept.Located] = []
    for start in range(0, len(keys), _TASKS_AT_ONCE):
        some = [seen.tasks[k] for k in keys[start : start + _TASKS_AT_ONCE]]
        parts.append(await worker.locate(kept.Wanted(some, whole=turns, limit=limit, all=start == 0)))
    places = dict(zip(keys, (p for part in parts for p in part.places), strict=True))
    fresh = not turns and spec.harness == IN_PROCESS and spec.runtime == "subprocess"
    return Scoring(worker, form, places, parts[0], turns, fresh)


def to_replay(units: Sequence[Unit], scoring: Scoring) -> list[tuple[int, Stored]]:
    """Stored rollouts with their rows, the longest conversations first, one of each task."""
    chosen: dict[str, tuple[int, Stored]] = {}
    for stored in sorted((s for u in units for s in u), key=lambda s: -len(scoring.form.said(s.record) or ())):
        row = scoring.places[stored.task].row
        if row is not None:
            chosen.setdefault(stored.task, (row, stored))
    return list(chosen.values())[: 4 * REPLAYED]
