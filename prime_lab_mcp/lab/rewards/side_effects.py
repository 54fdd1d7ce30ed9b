"""Observes side effects of scoring, and scores samples again in other processes.

Side effects are interference under concurrency, mutated inputs and a blocked event loop. A second worker shows whether
scores depend on the process, for example on its hash seed.

A worker reports its own scores, so a reward that recognises this server could score honestly only here. A witness
therefore scores a sample again. A witness is a process without any module of this server, with another path, clock,
host name and other variables. Components that are stable on repetition must have the same scores in the witness. Before
a difference counts, a fresh worker scores the sample as well: a difference that appears there too depends on the
process and not on this server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.observations import (
    ObservedSideEffects,
    OtherProcessScore,
    RepeatedScore,
    ScoredProbe,
    WitnessDifference,
    Witnessed,
    differs_on_repeat,
)
from prime_lab_mcp.lab.rewards.probes.catalogue import WITH_COMMAS
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Scored
from prime_lab_mcp.lab.worker.witness import SHIFTS, Witness, WitnessedScore, WitnessScores

CONCURRENT_PROBES = 32
"""Largest number of completions that are scored concurrently (docs/validation.md, Reward tests)."""
OTHER_PROCESS_PROBES = 24
"""Largest number of completions of ordinary kinds that are scored again in another process, besides `_TIED`."""
_BUSY_MS = 1500.0
"""Largest total scoring time of the completions that are scored concurrently. With more, a reward could exceed its own
time limits on a small machine."""
_LONG_MS = 80.0
_TOO_LONG_MS = 3000.0
"""Scoring times between which a completion is observed alone, because it may block the event loop."""
_LONG = 4
"""Largest number of completions that are observed alone."""
_TEXT = 20_000
"""Longest completion whose side effects are observed, in characters. reward-slow covers longer ones."""
_MIXED_KINDS: frozenset[Kind] = frozenset({"gold", "verbose", "wrong", "malformed", "empty"})
_HEAVY = frozenset({Family.BACKTRACKING, Family.MARKUP})
"""Families of slow probes, which reward-slow judges."""
_TIED = ((Family.GOLD_LAST, Family.GOLD_FIRST), (Family.EVERY_ANSWER,))
"""Families of probes with two answers, and with all answers. Their rewards show whether a reward depends on the order
of a set."""
_MOST_TIED = 12
"""Most probes of each of these two kinds that another process scores: with four labels, a reward that takes the first
label of a set pays a list of all labels differently in two processes with a chance of 3 in 8."""


def concurrent_probes(scored_probes: Iterable[ScoredProbe]) -> tuple[list[ScoredProbe], list[ScoredProbe]]:
    """Choose the completions to score concurrently, with mixed tasks and kinds, and slow ones to observe alone."""
    known = [s for s in scored_probes if _computed(s)]
    chosen: list[ScoredProbe] = []
    busy = 0.0
    for scored_probe in mixed_probes(known):
        if len(chosen) < CONCURRENT_PROBES and busy + scored_probe.scored.ms <= _BUSY_MS:
            chosen.append(scored_probe)
            busy += scored_probe.scored.ms
    taken = {id(s) for s in chosen}
    long = [s for s in known if _LONG_MS < s.scored.ms < _TOO_LONG_MS and id(s) not in taken]
    long = [s for s in long if len(s.probe.completion) <= _TEXT and s.probe.family not in _HEAVY]
    return chosen, sorted(long, key=lambda s: -s.scored.ms)[:_LONG]


def _computed(scored_probe: ScoredProbe) -> bool:
    """Whether a completion has a reward and raised no error."""
    return scored_probe.reward is not None and not scored_probe.scored.errors


def mixed_probes(scored_probes: Sequence[ScoredProbe]) -> list[ScoredProbe]:
    """Return the completions of ordinary kinds, alternating between tasks and, within a task, between kinds.

    Tasks with completions of many kinds come first, and each begins with another kind: of most tasks only the gold is
    scored, and the first few completions would all be golds.
    """
    by_row: dict[int, dict[Kind, list[ScoredProbe]]] = {}
    for scored_probe in scored_probes:
        if scored_probe.probe.kind in _MIXED_KINDS:
            by_row.setdefault(scored_probe.probe.row, {}).setdefault(scored_probe.probe.kind, []).append(scored_probe)
    by_kinds = sorted(by_row.values(), key=len, reverse=True)
    tasks = [_in_turn(kinds.values()) for kinds in by_kinds]
    begun = [number % len(kinds) for number, kinds in enumerate(by_kinds)]
    return _in_turn([[*task[first:], *task[:first]] for task, first in zip(tasks, begun, strict=True)])


def _in_turn(lists: Iterable[Sequence[ScoredProbe]]) -> list[ScoredProbe]:
    """Return the first entry of every list, then the second of every list, and so on."""
    return [scored_probe for group in zip_longest(*lists) for scored_probe in group if scored_probe is not None]


_PARTLY_RIGHT_KINDS: frozenset[Kind] = frozenset({"half-right", "cut", "cross"})
PARTLY_RIGHT_PROBES = 24
"""Largest number of partly right replies that are scored two more times."""
_SHORT_MS = 250.0
"""Scoring time up to which such a reply is scored again (our choice). A slow reward may vary by its own time limits."""


def partly_right_probes(scored_probes: Iterable[ScoredProbe], repeats: Iterable[RepeatedScore]) -> list[ScoredProbe]:
    """Choose replies to score again that are or may be right in part, and supplied cases, a few of each family.

    A reward that draws what it checks pays a right reply in full and a wrong one nothing, whatever it draws. Only
    replies between the two show the draw.
    """
    known = {(r.probe.row, r.probe.completion) for r in repeats}
    by_family: dict[Family, list[ScoredProbe]] = {}
    for scored_probe in scored_probes:
        probe, scored = scored_probe.probe, scored_probe.scored
        fits = probe.kind in _PARTLY_RIGHT_KINDS or probe.family is Family.SUPPLIED
        if fits and _computed(scored_probe) and not (scored.problems or scored.judges) and scored.ms <= _SHORT_MS:
            key = (probe.row, probe.completion)
            if key not in known:
                known.add(key)
                by_family.setdefault(probe.family, []).append(scored_probe)
    return _in_turn(by_family.values())[:PARTLY_RIGHT_PROBES]


async def observe_side_effects(worker: Worker, scored_probes: Iterable[ScoredProbe]) -> ObservedSideEffects | None:
    """Observe the side effects of scoring some of these completions; None if none of them can be observed."""
    short, long = concurrent_probes(scored_probes)
    if not short and not long:
        return None
    cases = [*((s.probe.case, True) for s in short), *((s.probe.case, False) for s in long)]
    try:
        effects = await worker.measure_side_effects(cases)
    except LabError as error:
        return ObservedSideEffects(tuple(short), (), error.message)
    return ObservedSideEffects((*short, *long), tuple(effects))


async def score_in_other_processes(
    worker: Worker,
    scored_probes: Sequence[ScoredProbe],
    repeats: Sequence[RepeatedScore],
    hash_seeds: Sequence[int | None],
) -> tuple[OtherProcessScore, ...]:
    """Score some completions again in another process for each hash seed, until one process gives another reward.

    Empty if rewards already vary within one process, or if the other processes fail.
    """
    if any(differs_on_repeat(r) for r in repeats):
        return ()
    known = [s for s in scored_probes if _computed(s)]
    two, every = ([s for s in known if s.probe.family in families] for families in _TIED)
    every = [s for s in every if s.probe.variant == WITH_COMMAS] or every
    tied = [*two[: OTHER_PROCESS_PROBES // 3], *every[:_MOST_TIED]]
    chosen = [*tied, *mixed_probes(known)[:OTHER_PROCESS_PROBES]]
    busy = sum(s.scored.ms for s in chosen)
    if busy > 2 * _BUSY_MS:
        chosen = chosen[: max(_LONG, int(len(chosen) * 2 * _BUSY_MS / busy))]
    compared: tuple[OtherProcessScore, ...] = ()
    for hash_seed in hash_seeds:
        try:
            async with worker.in_another_process(hash_seed) as other:
                scores = await other.score([s.probe.case for s in chosen], timeout=60)
        except LabError:
            return compared  # Scoring works in the first process, so the reward is not the cause of the failure.
        compared = tuple(OtherProcessScore(s, there) for s, there in zip(chosen, scores, strict=True))
        if any(not same_reward(c.scored_probe.reward, c.there.reward) for c in compared):
            break
    return compared


async def warm_other_process(worker: Worker) -> None:
    """Start the other process in the background, so that it is ready after the probes are scored."""
    if worker.siblings is not None:
        try:
            await worker.siblings.warm()
        except LabError:
            return  # `score_in_other_processes` then returns no scores.


ORDINARY, SUPPLIED, HACKS = 20, 6, 8
"""Largest numbers of completions of ordinary kinds, of supplied cases and of other kinds that a witness scores."""
_FEW = 3
"""Smallest number of completions that a witness scores."""
_WITNESS_BUSY_MS = 400.0
"""Largest total scoring time for each pass of a witness, if there are more than `_FEW` completions."""
_HARMLESS = frozenset({ProblemCode.NEEDS_CONTAINER, ProblemCode.CAUGHT})
_CHANGED = (ProblemCode.TASK_CHANGED, ProblemCode.NO_SUCH_ROW)


def witness_sample(scored_probes: Iterable[ScoredProbe]) -> list[ScoredProbe]:
    """Choose the completions for the witness.

    They are right, wrong and malformed answers to several tasks, supplied cases, and a few others.
    """
    known = [s for s in scored_probes if _comparable(s)]
    # The probes of one family follow each other, so the choices are evenly spaced.
    supplied = _spread([s for s in known if s.probe.family is Family.SUPPLIED], SUPPLIED)
    taken = {id(s) for s in supplied}
    ordinary = mixed_probes([s for s in known if id(s) not in taken])[:ORDINARY]
    taken |= {id(s) for s in ordinary}
    others = _spread([s for s in known if id(s) not in taken], HACKS)
    chosen = [*ordinary[:_FEW], *supplied, *ordinary[_FEW:], *others]
    few: list[ScoredProbe] = []
    busy = 0.0
    for scored_probe in chosen:
        busy += scored_probe.scored.ms
        if len(few) >= _FEW and busy > _WITNESS_BUSY_MS:
            break
        few.append(scored_probe)
    return few


def _spread(scored_probes: Sequence[ScoredProbe], number: int) -> Sequence[ScoredProbe]:
    return scored_probes[:: max(1, len(scored_probes) // number)][:number]


def _comparable(scored_probe: ScoredProbe) -> bool:
    """Whether a completion has a reward, without errors, problems or questions to a judge, and is not too long."""
    scored = scored_probe.scored
    faultless = not scored.errors and not scored.judges and all(p.code in _HARMLESS for p in scored.problems)
    return faultless and scored.reward is not None and len(scored_probe.probe.completion) <= _TEXT


@dataclass(frozen=True, slots=True)
class ComparedScores:
    """The result of the witness, and the scores of a fresh worker that differ from the first scores."""

    witnessed: Witnessed | None
    other_process: tuple[OtherProcessScore, ...] = ()


async def compare_with_witness(
    witness: Witness,
    scorer: Scorer,
    scored_probes: Iterable[ScoredProbe],
    repeats: Sequence[RepeatedScore],
    rows: Sequence[Row],
) -> ComparedScores:
    """Let the witness score a sample of `scored_probes`, and confirm differences with a fresh worker."""
    sample = witness_sample(scored_probes)
    if not sample:
        return ComparedScores(None)
    cases = [replace(s.probe.case, rest_of_group=scorer.rest_of_group.get(s.probe.row, ())) for s in sample]
    limit = len(SHIFTS) * len(cases) * scorer.case_timeout
    try:
        witnessed = await witness.score(cases, case_timeout=scorer.case_timeout, timeout=limit)
    except LabError as error:
        return ComparedScores(Witnessed(trouble=error.message))
    silent = [i for i in range(len(sample)) if all(scores[i].error for scores in witnessed.passes)]
    if 2 * len(silent) > len(sample):
        why = quote(witnessed.passes[-1][silent[0]].error, 200)
        return ComparedScores(Witnessed(trouble=f"scoring raised there, which it does not here: {why}"))
    differences = list(_differences(sample, witnessed, _unstable(repeats), {row.index: row for row in rows}))
    if not differences:
        return ComparedScores(Witnessed(len(sample) - len(silent)))
    try:
        async with scorer.worker.in_another_process() as other:
            again = await other.score(cases, timeout=60)
    except LabError as error:
        return ComparedScores(Witnessed(trouble=f"a difference could not be confirmed: {error.message}"))
    fresh = {id(scored_probe): scored for scored_probe, scored in zip(sample, again, strict=True)}
    unsteady = tuple(
        OtherProcessScore(d.scored_probe, fresh[id(d.scored_probe)])
        for d in differences
        if _moved(d, fresh[id(d.scored_probe)])
    )
    moved = {id(o.scored_probe) for o in unsteady}
    remaining = tuple(d for d in differences if id(d.scored_probe) not in moved)
    return ComparedScores(Witnessed(len(sample) - len(silent), remaining), unsteady)


def _unstable(repeats: Sequence[RepeatedScore]) -> frozenset[str]:
    """Return the components that one process scored differently. The empty name stands for the whole reward."""
    names = {""} if any(map(differs_on_repeat, repeats)) else set()
    for repeat in repeats:
        for name, part in repeat.first.components.items():
            others = [s.components.get(name) for s in (repeat.again, repeat.reverse)]
            if not all(other is not None and same_reward(part.score, other.score) for other in others):
                names.add(name)
    return frozenset(names)


def _differences(
    sample: Sequence[ScoredProbe], witnessed: WitnessScores, unstable: frozenset[str], rows: Mapping[int, Row]
) -> Iterator[WitnessDifference]:
    """Yield the completions of the sample that the witness scored differently or on another task."""
    for number, scored_probe in enumerate(sample):
        if _other_task(rows.get(scored_probe.probe.row), witnessed.tasks[number]):
            yield WitnessDifference(scored_probe, None, other_task=True)
            continue
        scores = [scores[number] for scores in witnessed.passes]
        parts = [_different_parts(scored_probe.scored, score, unstable) if not score.error else () for score in scores]
        first = next((i for i, names in enumerate(parts) if names), None)
        if first is not None:
            by_clock = not parts[-1] and not scores[-1].error
            names = tuple(name for name in parts[first] if name)
            yield WitnessDifference(scored_probe, scores[first].reward, names, by_clock)


def _different_parts(here: Scored, there: WitnessedScore, unstable: frozenset[str]) -> tuple[str, ...]:
    """Return the stable components with different scores. The empty name stands for the whole reward."""
    pairs = [("", here.reward, there.reward)]
    pairs += [(n, c.score, there.components[n]) for n, c in here.components.items() if n in there.components]
    return tuple(name for name, one, other in pairs if name not in unstable and not same_reward(one, other))


def _other_task(row: Row | None, there: str) -> bool:
    """Whether the witness has another task at this index. Tasks are compared by key (v1) or by answer (v0)."""
    if row is None:
        return False
    kind, _, value = there.partition(":")
    if kind == "key":
        return value != row.key[: len(value)]
    return isinstance(row.answer, str) and value != row.answer[: len(value)]


def _moved(difference: WitnessDifference, fresh: Scored) -> bool:
    """Whether the scores of a fresh worker differ from the first scores, too."""
    if difference.other_task or fresh.has(*_CHANGED):
        return fresh.has(*_CHANGED)
    first = difference.scored_probe.scored
    if not same_reward(first.reward, fresh.reward):
        return True
    parts = [(part.score, fresh.components.get(name)) for name, part in first.components.items()]
    return any(other is None or not same_reward(score, other.score) for score, other in parts)
