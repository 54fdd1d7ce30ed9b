"""Tries how scoring behaves: many at once in one event loop, what it changes and blocks, and in another process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.rewards.observed import Abroad, Behaviour, Repeat, Shot, differs
from prime_lab_mcp.lab.rewards.probes import Kind
from prime_lab_mcp.lab.worker.host import Worker

AT_ONCE = 32
"""Completions that are scored together (facts/validation 2.2, `concurrency`)."""
ABROAD = 24
"""Completions that are scored again in another process."""
_BUSY_MS = 1500.0
"""Work scored at once; more would let a reward's own time limits strike on a small machine."""
_LONG_MS = 80.0
_TOO_LONG_MS = 3000.0
_LONG = 4
_TEXT = 20_000
"""Characters of a completion that is watched: of a longer one, reward-slow says what its size costs."""
_PLAIN: frozenset[Kind] = frozenset({"gold", "verbose", "wrong", "malformed", "empty"})
_HEAVY = ("heavy", "many")
"""Probes made to be slow: reward-slow judges them."""
_TIED = "both:"
"""Probes that give two answers: where an unordered collection of them decides, its order shows."""


def together(shots: Iterable[Shot]) -> tuple[list[Shot], list[Shot]]:
    """Completions to score at once, tasks and kinds mixed; and beside them those that take long, to be watched."""
    known = [s for s in shots if _computed(s)]
    chosen: list[Shot] = []
    busy = 0.0
    for shot in mixed(known):
        if len(chosen) < AT_ONCE and busy + shot.scored.ms <= _BUSY_MS:
            chosen.append(shot)
            busy += shot.scored.ms
    taken = {id(s) for s in chosen}
    long = [s for s in known if _LONG_MS < s.scored.ms < _TOO_LONG_MS and id(s) not in taken]
    long = [s for s in long if len(s.probe.completion) <= _TEXT and not s.probe.name.startswith(_HEAVY)]
    return chosen, sorted(long, key=lambda s: -s.scored.ms)[:_LONG]


def _computed(shot: Shot) -> bool:
    """Scored to a number without breaking anything: only such can tell what is done to it."""
    return shot.reward is not None and not shot.scored.errors


def mixed(shots: Sequence[Shot]) -> list[Shot]:
    """Plain completions, a task at a time in turn, each task's kinds in turn."""
    by_row: dict[int, dict[Kind, list[Shot]]] = {}
    for shot in shots:
        if shot.probe.kind in _PLAIN:
            by_row.setdefault(shot.probe.row, {}).setdefault(shot.probe.kind, []).append(shot)
    tasks = [_in_turn(kinds.values()) for kinds in by_row.values()]
    return _in_turn(tasks)


def _in_turn(lists: Iterable[Sequence[Shot]]) -> list[Shot]:
    return [shot for group in zip_longest(*lists) for shot in group if shot is not None]


async def behave(worker: Worker, shots: Iterable[Shot]) -> Behaviour | None:
    """How scoring these behaves. None where none of them was scored."""
    short, long = together(shots)
    if not short and not long:
        return None
    cases = [*((s.probe.case, True) for s in short), *((s.probe.case, False) for s in long)]
    try:
        found = await worker.together(cases)
    except LabError as error:
        return Behaviour(tuple(short), (), error.message)
    return Behaviour((*short, *long), tuple(found))


async def abroad(
    worker: Worker, shots: Sequence[Shot], repeats: Sequence[Repeat], hash_seed: int | None
) -> tuple[Abroad, ...]:
    """Score some again in another process. Nothing where they vary in one process already."""
    if any(differs(r) for r in repeats):
        return ()
    known = [s for s in shots if _computed(s)]
    tied = [s for s in known if s.probe.name.startswith(_TIED)][: ABROAD // 3]
    chosen = [*tied, *mixed(known)[: ABROAD - len(tied)]]
    busy = sum(s.scored.ms for s in chosen)
    if busy > 2 * _BUSY_MS:
        chosen = chosen[: max(_LONG, int(len(chosen) * 2 * _BUSY_MS / busy))]
    try:
        async with worker.elsewhere(hash_seed) as other:
            found = await other.score([s.probe.case for s in chosen], timeout=60)
    except LabError:
        return ()  # that process failed, not the reward: loading and scoring are known to work in this one
    return tuple(Abroad(s, there) for s, there in zip(chosen, found, strict=True))


async def warm(worker: Worker) -> None:
    """Begin starting the other process, so that it is ready when the rest has been scored."""
    if worker.twin is not None:
        try:
            await worker.twin.warm()
        except LabError:
            return  # `abroad` then finds none, and says nothing
