"""Observes side effects of scoring: interference under concurrency, mutated inputs, a blocked event loop, and different
results in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.rewards.observations import (
    ObservedSideEffects,
    OtherProcessScore,
    RepeatedScore,
    ScoredProbe,
    differs_on_repeat,
)
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind
from prime_lab_mcp.lab.worker.host import Worker

CONCURRENT_PROBES = 32
"""Most completions that are scored concurrently (docs/validation.md, Reward tests)."""
OTHER_PROCESS_PROBES = 24
"""Most completions that are scored again in another process."""
_BUSY_MS = 1500.0
"""Most work that is scored concurrently; more could exceed a reward's own time limits on a small machine."""
_LONG_MS = 80.0
_TOO_LONG_MS = 3000.0
_LONG = 4
_TEXT = 20_000
"""Longest completion whose side effects are observed, in characters; reward-slow covers longer ones."""
_PLAIN: frozenset[Kind] = frozenset({"gold", "verbose", "wrong", "malformed", "empty"})
_HEAVY = frozenset({Family.BACKTRACKING, Family.MARKUP})
"""Probes made to be slow: reward-slow judges them."""
_TIED = frozenset({Family.GOLD_LAST, Family.GOLD_FIRST})
"""Probes with two answers: their rewards reveal the order of an unordered collection."""


def concurrent_probes(shots: Iterable[ScoredProbe]) -> tuple[list[ScoredProbe], list[ScoredProbe]]:
    """The completions to score concurrently, with tasks and kinds mixed, and the slow ones to observe one by one."""
    known = [s for s in shots if _computed(s)]
    chosen: list[ScoredProbe] = []
    busy = 0.0
    for shot in mixed_probes(known):
        if len(chosen) < CONCURRENT_PROBES and busy + shot.scored.ms <= _BUSY_MS:
            chosen.append(shot)
            busy += shot.scored.ms
    taken = {id(s) for s in chosen}
    long = [s for s in known if _LONG_MS < s.scored.ms < _TOO_LONG_MS and id(s) not in taken]
    long = [s for s in long if len(s.probe.completion) <= _TEXT and s.probe.family not in _HEAVY]
    return chosen, sorted(long, key=lambda s: -s.scored.ms)[:_LONG]


def _computed(shot: ScoredProbe) -> bool:
    """Whether a completion has a reward and raised no error."""
    return shot.reward is not None and not shot.scored.errors


def mixed_probes(shots: Sequence[ScoredProbe]) -> list[ScoredProbe]:
    """The completions of ordinary kinds, alternating between tasks and, within a task, between kinds."""
    by_row: dict[int, dict[Kind, list[ScoredProbe]]] = {}
    for shot in shots:
        if shot.probe.kind in _PLAIN:
            by_row.setdefault(shot.probe.row, {}).setdefault(shot.probe.kind, []).append(shot)
    tasks = [_in_turn(kinds.values()) for kinds in by_row.values()]
    return _in_turn(tasks)


def _in_turn(lists: Iterable[Sequence[ScoredProbe]]) -> list[ScoredProbe]:
    return [shot for group in zip_longest(*lists) for shot in group if shot is not None]


async def observe_side_effects(worker: Worker, shots: Iterable[ScoredProbe]) -> ObservedSideEffects | None:
    """Observe the side effects of scoring these completions; None where none of them has a reward."""
    short, long = concurrent_probes(shots)
    if not short and not long:
        return None
    cases = [*((s.probe.case, True) for s in short), *((s.probe.case, False) for s in long)]
    try:
        found = await worker.together(cases)
    except LabError as error:
        return ObservedSideEffects(tuple(short), (), error.message)
    return ObservedSideEffects((*short, *long), tuple(found))


async def score_in_other_process(
    worker: Worker, shots: Sequence[ScoredProbe], repeats: Sequence[RepeatedScore], hash_seed: int | None
) -> tuple[OtherProcessScore, ...]:
    """Score some completions again in another process; empty where rewards already vary within one process."""
    if any(differs_on_repeat(r) for r in repeats):
        return ()
    known = [s for s in shots if _computed(s)]
    tied = [s for s in known if s.probe.family in _TIED][: OTHER_PROCESS_PROBES // 3]
    chosen = [*tied, *mixed_probes(known)[: OTHER_PROCESS_PROBES - len(tied)]]
    busy = sum(s.scored.ms for s in chosen)
    if busy > 2 * _BUSY_MS:
        chosen = chosen[: max(_LONG, int(len(chosen) * 2 * _BUSY_MS / busy))]
    try:
        async with worker.elsewhere(hash_seed) as other:
            found = await other.score([s.probe.case for s in chosen], timeout=60)
    except LabError:
        return ()  # The other process failed, not the reward: loading and scoring work in this process.
    return tuple(OtherProcessScore(s, there) for s, there in zip(chosen, found, strict=True))


async def warm_other_process(worker: Worker) -> None:
    """Start the other process in the background, so that it is ready after the probes are scored."""
    if worker.twin is not None:
        try:
            await worker.twin.warm()
        except LabError:
            return  # `score_in_other_process` then returns no scores.
