"""Compares a sample of scores with those of a witness: a process that holds no module of ours, in other surroundings.

The process that runs the environment's code reports its own scores, so code that recognises this server can pay
honestly only here. Components that are stable on repetition must be the same in the witness. Before a difference
counts, a fresh worker scores the sample too: what differs there depends on the process, and not on this server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.observations import (
    OtherProcessScore,
    RepeatedScore,
    ScoredProbe,
    WitnessDifference,
    Witnessed,
    differs_on_repeat,
    same_reward,
)
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.side_effects import mixed_probes
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.problems import ProblemCode
from prime_lab_mcp.lab.worker.scoring import Scored
from prime_lab_mcp.lab.worker.witness import SHIFTS, Testimony, Witness, WitnessedScore

ORDINARY, HACKS = 20, 8
"""Most completions of ordinary kinds and of other kinds that a witness scores."""
_FEW = 3
_BUSY_MS = 400.0
"""Most work for each pass of a witness; at least `_FEW` completions are scored."""
_TEXT = 20_000
_HARMLESS = frozenset({ProblemCode.NEEDS_CONTAINER})
_CHANGED = (ProblemCode.TASK_CHANGED, ProblemCode.NO_SUCH_ROW)


def witness_sample(shots: Iterable[ScoredProbe]) -> list[ScoredProbe]:
    """The completions to score again: right, wrong and malformed answers of several tasks, and a few hacks."""
    known = [s for s in shots if _comparable(s)]
    ordinary = mixed_probes(known)[:ORDINARY]
    taken = {id(s) for s in ordinary}
    # Evenly spaced, because the probes of one family stand together.
    others = [s for s in known if id(s) not in taken]
    chosen = [*ordinary, *others[:: max(1, len(others) // HACKS)][:HACKS]]
    few: list[ScoredProbe] = []
    busy = 0.0
    for shot in chosen:
        busy += shot.scored.ms
        if len(few) >= _FEW and busy > _BUSY_MS:
            break
        few.append(shot)
    return few


def _comparable(shot: ScoredProbe) -> bool:
    scored = shot.scored
    plain = not scored.errors and not scored.judges and all(p.code in _HARMLESS for p in scored.problems)
    return plain and scored.reward is not None and len(shot.probe.completion) <= _TEXT


@dataclass(frozen=True, slots=True)
class ComparedScores:
    """What the witness says, and the scores of a fresh worker that differ from the first scores."""

    witnessed: Witnessed | None
    other_process: tuple[OtherProcessScore, ...] = ()


async def compare_with_witness(
    witness: Witness,
    scorer: Scorer,
    shots: Iterable[ScoredProbe],
    repeats: Sequence[RepeatedScore],
    rows: Sequence[Row],
) -> ComparedScores:
    """Let the witness score a sample of `shots`, and confirm differences with a fresh worker."""
    sample = witness_sample(shots)
    if not sample:
        return ComparedScores(None)
    cases = [replace(s.probe.case, company=scorer.company.get(s.probe.row, ())) for s in sample]
    limit = len(SHIFTS) * len(cases) * scorer.case_timeout
    try:
        testimony = await witness.testify(cases, case_timeout=scorer.case_timeout, timeout=limit)
    except LabError as error:
        return ComparedScores(Witnessed(trouble=error.message))
    silent = [i for i in range(len(sample)) if all(scores[i].error for scores in testimony.passes)]
    if 2 * len(silent) > len(sample):
        why = quote(testimony.passes[-1][silent[0]].error, 200)
        return ComparedScores(Witnessed(trouble=f"scoring raised there, which it does not here: {why}"))
    differences = list(_differences(sample, testimony, _unstable(repeats), {row.index: row for row in rows}))
    if not differences:
        return ComparedScores(Witnessed(len(sample) - len(silent)))
    try:
        async with scorer.worker.elsewhere() as other:
            again = await other.score(cases, timeout=60)
    except LabError as error:
        return ComparedScores(Witnessed(trouble=f"a difference could not be confirmed: {error.message}"))
    fresh = {id(shot): scored for shot, scored in zip(sample, again, strict=True)}
    unsteady = tuple(OtherProcessScore(d.shot, fresh[id(d.shot)]) for d in differences if _moved(d, fresh[id(d.shot)]))
    moved = {id(o.shot) for o in unsteady}
    kept = tuple(d for d in differences if id(d.shot) not in moved)
    return ComparedScores(Witnessed(len(sample) - len(silent), kept), unsteady)


def _unstable(repeats: Sequence[RepeatedScore]) -> frozenset[str]:
    """The components that one process scored differently; the empty name stands for the reward."""
    names = {""} if any(map(differs_on_repeat, repeats)) else set()
    for repeat in repeats:
        for name, part in repeat.first.components.items():
            others = [s.components.get(name) for s in (repeat.again, repeat.reverse)]
            if not all(other is not None and same_reward(part.score, other.score) for other in others):
                names.add(name)
    return frozenset(names)


def _differences(
    sample: Sequence[ScoredProbe], testimony: Testimony, unstable: frozenset[str], rows: Mapping[int, Row]
) -> Iterator[WitnessDifference]:
    for number, shot in enumerate(sample):
        if _other_task(rows.get(shot.probe.row), testimony.tasks[number]):
            yield WitnessDifference(shot, None, other_task=True)
            continue
        scores = [scores[number] for scores in testimony.passes]
        parts = [_different_parts(shot.scored, score, unstable) if not score.error else () for score in scores]
        first = next((i for i, names in enumerate(parts) if names), None)
        if first is not None:
            by_clock = not parts[-1] and not scores[-1].error
            names = tuple(name for name in parts[first] if name)
            yield WitnessDifference(shot, scores[first].reward, names, by_clock)


def _different_parts(here: Scored, there: WitnessedScore, unstable: frozenset[str]) -> tuple[str, ...]:
    pairs = [("", here.reward, there.reward)]
    pairs += [(n, c.score, there.components[n]) for n, c in here.components.items() if n in there.components]
    return tuple(name for name, one, other in pairs if name not in unstable and not same_reward(one, other))


def _other_task(row: Row | None, there: str) -> bool:
    """Whether the witness has another task; the identity of a task is its key (v1) or its answer (v0)."""
    if row is None:
        return False
    kind, _, value = there.partition(":")
    if kind == "key":
        return value != row.key[: len(value)]
    return isinstance(row.answer, str) and value != row.answer[: len(value)]


def _moved(difference: WitnessDifference, fresh: Scored) -> bool:
    """Whether a fresh worker differs from the first scores as well."""
    if difference.other_task or fresh.has(*_CHANGED):
        return fresh.has(*_CHANGED)
    first = difference.shot.scored
    if not same_reward(first.reward, fresh.reward):
        return True
    parts = [(part.score, fresh.components.get(name)) for name, part in first.components.items()]
    return any(other is None or not same_reward(score, other.score) for score, other in parts)
