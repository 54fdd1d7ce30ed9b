"""Scores golds on all tasks, probes on some of them, and repetitions, as many as the time allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets.task_golds import TaskGold
from prime_lab_mcp.lab.rewards import side_effects
from prime_lab_mcp.lab.rewards.calibration import Calibration
from prime_lab_mcp.lab.rewards.goldless import program_probes
from prime_lab_mcp.lab.rewards.judged_scoring import JUDGED_GOLDS, JUDGED_REPEATS, probes_worth_asking
from prime_lab_mcp.lab.rewards.observations import RepeatedScore, ScoredCase, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import (
    ELSEWHERE,
    AnswerStyle,
    Draft,
    Probe,
    build_probes,
    gold_probe,
)
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import clearly_wrong_answer, spread_over_answers
from prime_lab_mcp.lab.rewards.scorer import Scorer, is_stress, score_probes
from prime_lab_mcp.lab.rewards.task_maximum import TASKS_OF_LEVEL, lower_levels
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.faults import ProblemCode

_SECONDS = 10.0
"""Time for scoring the golds. A slow reward scores fewer golds, but at least `FEW_GOLDS`."""
FEW_GOLDS = 24
_SLOW_CASE_MS = 700.0
"""Median time for scoring one completion above which only the probes for a judge are scored."""
_REPEAT_MS = 3000.0
"""Time for one repetition of ordinary completions. A slow reward repeats fewer, but at least `_REPEATED`."""
_REPEATED = 6


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The scores of golds and probes.

    `picked` are the golds of the example tasks, on which probes are tried. `heavy` are the probes that are scored last,
    because they may hang a reward.
    """

    golds: tuple[ScoredProbe, ...] = ()
    scored_probes: tuple[ScoredProbe, ...] = ()
    repeats: tuple[RepeatedScore, ...] = ()
    picked: tuple[TaskGold, ...] = ()
    heavy: tuple[Probe, ...] = ()


async def score_tasks(
    scorer: Scorer,
    calibration: Calibration,
    rows: Sequence[Row],
    *,
    examples: int,
    hacks: bool,
    sparing: bool,
    also: Collection[int] = (),
) -> TaskScores:
    """Score the golds of all tasks and the probes of `examples` tasks, and of the tasks with the indices `also`.

    `hacks` includes exploits among the probes. `sparing` limits the probes, because each completion asks a judge.
    """
    golds = await _golds(scorer, calibration, sparing)
    picked = list(spread_over_answers(calibration.style.golds, examples, calibration.style.form))
    picked += [gold for gold in calibration.style.golds.golds if gold.row in also and gold not in picked]
    probes = build_probes(calibration.style, picked, {row.index: row for row in rows}, hacks=hacks)
    heavy = [p for p in probes if is_stress(p)]
    times = sorted(scored.ms for _, scored in calibration.scored)
    slow = bool(times) and times[len(times) // 2] > _SLOW_CASE_MS
    scored_probes, repeats = await _probe(scorer, [p for p in probes if p not in heavy], sparing or slow)
    scored_probes = (*scored_probes, *await _wrongs_of_levels(scorer, calibration.style, golds))
    if not (sparing or slow):
        scored_probes = (*scored_probes, *await _wrongs_elsewhere(scorer, calibration.style, golds, scored_probes))
    if not scorer.rest_of_group:  # A group reward may rightly differ between the calibration's group and this one.
        repeats = (*_repeated_golds(calibration, golds), *repeats)
    return TaskScores(golds, scored_probes, repeats, tuple(picked), tuple(heavy))


async def _wrongs_of_levels(
    scorer: Scorer, style: AnswerStyle, golds: Sequence[ScoredProbe]
) -> tuple[ScoredProbe, ...]:
    """Score one wrong answer to some tasks of each level, a lower reward that several golds earn (task_maximum.py)."""
    by_row = {gold.row: gold for gold in style.golds.golds}
    rows = [s.probe.row for level in lower_levels(golds).values() for s in level[:TASKS_OF_LEVEL]]
    if scorer.gave_up:
        return ()
    return await score_probes(scorer, [_wrong_probe(style, by_row[row], "of a lower level", "level") for row in rows])


def _wrong_probe(style: AnswerStyle, gold: TaskGold, variant: str, name: str) -> Probe:
    """Return one clearly wrong answer to the task of a gold."""
    wrong = style.wrapper.wrap(clearly_wrong_answer(style.golds, gold, style.form))
    return Draft(Family.WRONG, wrong, variant).probe(f"{gold.row}/{name}", gold.row)


async def _wrongs_elsewhere(
    scorer: Scorer, style: AnswerStyle, golds: Sequence[ScoredProbe], scored_probes: Sequence[ScoredProbe]
) -> tuple[ScoredProbe, ...]:
    """Score one wrong answer to each task without one, as many as the time allows.

    A reward can be honest on the few tasks with probes, which code can compute, and pay anything on the others.
    """
    by_row = {gold.row: gold for gold in style.golds.golds}
    probed = {s.probe.row for s in scored_probes if s.probe.family is Family.WRONG}
    paid = [s for s in golds if s.probe.row not in probed and (s.reward or 0.0) > EPSILON]
    if scorer.gave_up or style.programs or not paid:
        return ()
    each = max(0.1, sum(s.scored.ms for s in paid) / len(paid))
    affordable = paid[: int(_SECONDS * 1000 / each)]
    wrongs = [_wrong_probe(style, by_row[s.probe.row], ELSEWHERE, "elsewhere") for s in affordable]
    return await score_probes(scorer, wrongs)


def _repeated_golds(calibration: Calibration, golds: Sequence[ScoredProbe]) -> list[RepeatedScore]:
    """Return the golds that the calibration had already scored as repetitions."""
    later = {
        scored_probe.probe.row: scored_probe
        for scored_probe in golds
        if not scored_probe.scored.has(ProblemCode.NOT_RUN)
    }
    earlier = [(later[case.row], scored) for case, scored in calibration.scored if case.row in later]
    return [
        RepeatedScore(scored_probe.probe, scored, scored_probe.scored, scored_probe.scored)
        for scored_probe, scored in earlier
    ]


async def _golds(scorer: Scorer, calibration: Calibration, sparing: bool) -> tuple[ScoredProbe, ...]:
    """Score the golds of all tasks, or of as many as the time allows."""
    mean_ms = max(0.1, sum(s.ms for _, s in calibration.scored) / max(1, len(calibration.scored)))
    affordable = max(FEW_GOLDS, int(_SECONDS * 1000 / mean_ms))
    if sparing and any(s.judges for _, s in calibration.scored):
        affordable = JUDGED_GOLDS
    golds: Sequence[TaskGold] = calibration.style.golds.golds
    if len(golds) > affordable:
        golds = spread_over_answers(calibration.style.golds, affordable, calibration.style.form)
    return await score_probes(scorer, [gold_probe(calibration.style, gold) for gold in golds])


async def _probe(
    scorer: Scorer, probes: Sequence[Probe], sparing: bool
) -> tuple[tuple[ScoredProbe, ...], tuple[RepeatedScore, ...]]:
    """Score probes, and score some of them two more times: in the same and in reverse order."""
    scored_probes = await score_probes(scorer, probes_worth_asking(probes) if sparing else probes)
    mixed = side_effects.mixed_probes(scored_probes)
    busy = sum(s.scored.ms for s in mixed)
    if busy > _REPEAT_MS:
        mixed = mixed[: max(_REPEATED, int(len(mixed) * _REPEAT_MS / busy))]
    if scorer.gave_up:
        return scored_probes, ()
    if sparing:
        return scored_probes, await _twice(scorer, scored_probes)
    return scored_probes, await _two_more_times(scorer, mixed)


async def _two_more_times(scorer: Scorer, some: Sequence[ScoredProbe]) -> tuple[RepeatedScore, ...]:
    """Score completions again: in the same and in reverse order. Those that were not run again are left out."""
    again = await scorer.score([s.probe.case for s in some])
    reverse = (await scorer.score([s.probe.case for s in reversed(some)]))[::-1]
    return tuple(
        RepeatedScore(s.probe, s.scored, a, r)
        for s, a, r in zip(some, again, reverse, strict=True)
        if not (a.has(ProblemCode.NOT_RUN) or r.has(ProblemCode.NOT_RUN))
    )


async def _twice(scorer: Scorer, scored_probes: Sequence[ScoredProbe]) -> tuple[RepeatedScore, ...]:
    """Score some right and wrong completions again. Those that asked no judge are also scored in reverse order."""
    kinds: dict[str, list[ScoredProbe]] = {}
    for scored_probe in scored_probes:
        if scored_probe.probe.kind in ("gold", "wrong", "cross", "verbose"):
            kinds.setdefault(scored_probe.probe.kind, []).append(scored_probe)
    some = [s for of_kind in kinds.values() for s in of_kind[: JUDGED_REPEATS // max(1, len(kinds))]]
    again = await scorer.score([s.probe.case for s in some])
    pairs = [(s, a) for s, a in zip(some, again, strict=True) if not a.has(ProblemCode.NOT_RUN)]
    comparable = [(s, a) for s, a in pairs if not (s.scored.judges or a.judges)]
    last = (await scorer.score([s.probe.case for s, _ in reversed(comparable)]))[::-1]
    third = {
        id(s): reverse for (s, _), reverse in zip(comparable, last, strict=True) if not reverse.has(ProblemCode.NOT_RUN)
    }
    return tuple(RepeatedScore(s.probe, s.scored, a, third.get(id(s), a)) for s, a in pairs)


async def partly_right_again(
    scorer: Scorer,
    scored_probes: Sequence[ScoredProbe],
    supplied: Sequence[ScoredCase],
    repeats: Sequence[RepeatedScore],
) -> tuple[RepeatedScore, ...]:
    """Score some partly right replies and supplied cases two more times: in the same and in reverse order."""
    some = side_effects.partly_right_probes((*(s.scored_probe for s in supplied), *scored_probes), repeats)
    return await _two_more_times(scorer, some)


_PROGRAMS_MS = 15_000.0
_FEWEST_PROGRAMS = 12
"""Time for scoring programs that solve nothing, and the smallest number of them that are scored."""


async def score_programs(scorer: Scorer, rows: Sequence[Row], source: str) -> tuple[ScoredProbe, ...]:
    """Score programs that solve nothing on tasks without a known right answer."""
    probes = program_probes(rows, source)
    first = await score_probes(scorer, probes[:_FEWEST_PROGRAMS])
    each = max(1.0, sum(s.scored.ms for s in first) / max(1, len(first)))
    rest = probes[_FEWEST_PROGRAMS : max(_FEWEST_PROGRAMS, int(_PROGRAMS_MS / each))]
    return (*first, *await score_probes(scorer, rest)) if not scorer.gave_up else first
