"""Carries out one trial of a reward: golds, probes, repetitions, supplied cases, all through one loaded worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.rewards import enduring, judged, process_bound, properties, rollouts
from prime_lab_mcp.lab.rewards.calibrate import Calibration, calibrate
from prime_lab_mcp.lab.rewards.carriers import Carrier
from prime_lab_mcp.lab.rewards.observed import Abroad, Expected, Shot, Supplied, Trial
from prime_lab_mcp.lab.rewards.probes import Probe, Style, assistant, company
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.scoring_tasks import Tried, score_tasks, shoot
from prime_lab_mcp.lab.rewards.supplied import Wanted, place
from prime_lab_mcp.lab.worker.cases import Case, Loaded, Rows, Scored
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.pool import OTHER_SEED

GOLD_TASKS = 500
"""Tasks whose gold is scored; of a larger taskset a seeded sample."""
_NOTHING = "I do not know."
_RELOAD_SECONDS = 5.0
"""Where loading takes longer, it is not done again in another process unless the code gives a reason to."""
Cases = Callable[[Style | None], Sequence[Wanted]]


async def run(
    worker: Worker,
    loaded: Loaded,
    sample: Rows,
    source: str,
    *,
    examples: int,
    hacks: bool,
    cases: Cases,
    carrier: Carrier | None = None,
    relay: judged.Asked | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Trial:
    """Observe what the environment's reward pays. `source` is its code, searched for the tags it parses.

    `carrier` replaces the search for how the environment wants a gold said. `relay` is the way to its judge, if any;
    `arguments` are those that it was loaded with, and may name the judge.
    """
    sparing = judged.asks(loaded) or relay is not None
    scorer = Scorer(worker, case_timeout=judged.CASE_SECONDS) if sparing else Scorer(worker)
    rewards = tuple(loaded.rewards)
    several = process_bound.reason(source) is not None
    if several:
        await properties.warm(worker)
    grouped = any(r.kind == "group" for r in rewards)
    if grouped:
        scorer.company = {row.index: (assistant(_NOTHING), assistant("")) for row in sample.rows}
    found = await calibrate(scorer, sample.rows, source, carrier, sparing)
    sparing = sparing or (found is not None and judged.asks(loaded, (s for _, s in found.scored)))
    style = found.style if found is not None else None
    if style is not None and grouped:
        scorer.company = company(style)
    probes, unmatched = place(cases(style), sample.rows, style)
    tried = Tried(golds=_first_tried(found))
    if found is not None and found.mean is not None:
        tried = await score_tasks(scorer, found, sample.rows, examples=examples, hacks=hacks, sparing=sparing)
    golds, shots, repeats = tried.golds, tried.shots, tried.repeats
    stage = await rollouts.perform(worker, loaded, style, sample.rows) if not scorer.gave_up else rollouts.Stage()
    supplied = await _supplied(scorer, probes)
    if stage.way is not None:
        golds, shots = rollouts.shots(stage)
        repeats = ()
    if supplied and stage.stateful and (stage.way is not None or not any(s.reward for s in golds)):
        supplied = await rollouts.replayed(worker, supplied)
    known = [] if stage.way is not None else [*shots, *(s.shot for s in supplied)]
    alive = bool(known) and not scorer.faulty and not sparing
    behaviour = await properties.behave(worker, known) if alive else None
    abroad: tuple[Abroad, ...] = ()
    if alive and not grouped and (several or loaded.seconds < _RELOAD_SECONDS):
        abroad = await properties.abroad(worker, known, repeats, OTHER_SEED if several else None)
    if style is not None and tried.picked and hacks and stage.way is None and not sparing:
        shots = (*shots, *await enduring.endure(scorer, tried.heavy, style, tried.picked[0]))
    if any("left-processes" in s.scored.problems for s in (*golds, *shots)):
        await worker.close()  # a worker is kept for the next call, and with it what scoring left running
    shown = [*golds, *shots, *(s.shot for s in supplied)]
    return Trial(
        judging=judged.judging(loaded, shown, f"{source}\n{arguments}", relay),
        rewards=rewards,
        style=style,
        asked=found is not None and found.asked,
        golds=golds,
        shots=shots,
        repeats=repeats,
        supplied=supplied,
        unmatched=tuple(unmatched),
        faults=tuple(_shot(case, scored) for case, scored in scorer.faulty),
        behaviour=behaviour,
        abroad=abroad,
        rollouts=stage.performed,
        no_rollouts=stage.unavailable,
        rollouts_broke=stage.broken,
        by_rollouts=stage.way is not None,
        gave_up=scorer.gave_up,
        tasks=sample.total,
        renderings=found.tried if found is not None else 0,
    )


def _first_tried(found: Calibration | None) -> tuple[Shot, ...]:
    """What the likeliest rendering earned where none earned anything."""
    if found is None:
        return ()
    return tuple(_shot(case, scored) for case, scored in found.scored)


def _shot(case: Case, scored: Scored) -> Shot:
    return Shot(Probe(case.id, "gold", "gold", case.row, tuple(case.messages)), scored)


async def _supplied(scorer: Scorer, probes: Sequence[tuple[Probe, Expected]]) -> tuple[Supplied, ...]:
    shots = await shoot(scorer, [probe for probe, _ in probes])
    return tuple(Supplied(shot, expected) for shot, (_, expected) in zip(shots, probes, strict=True))
