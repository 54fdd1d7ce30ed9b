"""Carries out one trial of a reward: golds, probes, repetitions, supplied cases, all through one loaded worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.rewards import enduring, judged, process_bound, properties, rollouts
from prime_lab_mcp.lab.rewards.calibrate import Calibration, calibrate
from prime_lab_mcp.lab.rewards.carriers import Carrier
from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.observed import Abroad, Expected, Repeat, Shot, Supplied, Trial
from prime_lab_mcp.lab.rewards.probes import Probe, Style, assistant, build, company, gold_probe
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.supplied import Wanted, place
from prime_lab_mcp.lab.rewards.wrong import spread
from prime_lab_mcp.lab.worker.cases import Case, Loaded, Rows, Scored
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.pool import OTHER_SEED

GOLD_TASKS = 500
"""Tasks whose gold is scored; of a larger taskset a seeded sample."""
_SECONDS = 10.0
"""What scoring the golds may take; a slow reward gets a smaller sample, never below `_FEW`."""
_FEW = 24
_REPEAT_MS = 3000.0
"""What scoring plain completions once more may take; of a slow reward fewer are repeated, never below `_REPEATED`."""
_REPEATED = 6
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
    golds = _tried(found)
    shots: tuple[Shot, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    picked: Sequence[Gold] = ()
    heavy: Sequence[Probe] = ()
    if found is not None and found.mean is not None:
        golds = await _golds(scorer, found, sparing)
        picked = spread(found.style.golds, examples, found.style.form)
        probes_of_tasks = build(found.style, picked, {row.index: row for row in sample.rows}, hacks=hacks)
        heavy = [p for p in probes_of_tasks if enduring.is_heavy(p)]
        shots, repeats = await _probe(scorer, [p for p in probes_of_tasks if p not in heavy], sparing)
        if not grouped:  # there a completion earned what it does in other company
            repeats = (*_seen_before(found, golds), *repeats)
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
    if found is not None and picked and hacks and stage.way is None and not sparing:
        shots = (*shots, *await enduring.endure(scorer, heavy, found.style, picked[0]))
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


def _tried(found: Calibration | None) -> tuple[Shot, ...]:
    """What the likeliest rendering earned where none earned anything."""
    if found is None:
        return ()
    return tuple(_shot(case, scored) for case, scored in found.scored)


def _shot(case: Case, scored: Scored) -> Shot:
    return Shot(Probe(case.id, "gold", "gold", case.row, tuple(case.messages)), scored)


def _seen_before(found: Calibration, golds: Sequence[Shot]) -> list[Repeat]:
    """Golds that were scored once already while looking for the right way to write them."""
    later = {shot.probe.row: shot for shot in golds if "not-run" not in shot.scored.problems}
    earlier = [(later[case.row], scored) for case, scored in found.scored if case.row in later]
    return [Repeat(shot.probe, scored, shot.scored, shot.scored) for shot, scored in earlier]


async def _golds(scorer: Scorer, found: Calibration, sparing: bool) -> tuple[Shot, ...]:
    mean_ms = max(0.1, sum(s.ms for _, s in found.scored) / max(1, len(found.scored)))
    affordable = max(_FEW, int(_SECONDS * 1000 / mean_ms))
    if sparing and any(s.judges for _, s in found.scored):
        affordable = judged.GOLDS
    golds: Sequence[Gold] = found.style.golds.golds
    if len(golds) > affordable:
        golds = spread(found.style.golds, affordable, found.style.form)
    return await _shoot(scorer, [gold_probe(found.style, gold) for gold in golds])


async def _probe(scorer: Scorer, probes: Sequence[Probe], sparing: bool) -> tuple[tuple[Shot, ...], tuple[Repeat, ...]]:
    shots = await _shoot(scorer, judged.sparing(probes) if sparing else probes)
    plain = properties.mixed(shots)
    busy = sum(s.scored.ms for s in plain)
    if busy > _REPEAT_MS:
        plain = plain[: max(_REPEATED, int(len(plain) * _REPEAT_MS / busy))]
    if scorer.gave_up:
        return shots, ()
    if sparing:
        return shots, await _twice(scorer, shots)
    again = await scorer.score([s.probe.case for s in plain])
    reverse = (await scorer.score([s.probe.case for s in reversed(plain)]))[::-1]
    passes = zip(plain, again, reverse, strict=True)
    return shots, tuple(Repeat(s.probe, s.scored, a, r) for s, a, r in passes if "not-run" not in r.problems)


async def _twice(scorer: Scorer, shots: Sequence[Shot]) -> tuple[Repeat, ...]:
    """Completions that a judge may take for right or wrong, scored once more; where none was asked, also in reverse."""
    kinds: dict[str, list[Shot]] = {}
    for shot in shots:
        if shot.probe.kind in ("gold", "wrong", "cross", "verbose"):
            kinds.setdefault(shot.probe.kind, []).append(shot)
    some = [s for of_kind in kinds.values() for s in of_kind[: judged.REPEATED // max(1, len(kinds))]]
    again = await scorer.score([s.probe.case for s in some])
    pairs = [(s, a) for s, a in zip(some, again, strict=True) if "not-run" not in a.problems]
    plain = [(s, a) for s, a in pairs if not (s.scored.judges or a.judges)]
    last = (await scorer.score([s.probe.case for s, _ in reversed(plain)]))[::-1]
    third = {id(s): reverse for (s, _), reverse in zip(plain, last, strict=True) if "not-run" not in reverse.problems}
    return tuple(Repeat(s.probe, s.scored, a, third.get(id(s), a)) for s, a in pairs)


async def _supplied(scorer: Scorer, probes: Sequence[tuple[Probe, Expected]]) -> tuple[Supplied, ...]:
    shots = await _shoot(scorer, [probe for probe, _ in probes])
    return tuple(Supplied(shot, expected) for shot, (_, expected) in zip(shots, probes, strict=True))


async def _shoot(scorer: Scorer, probes: Sequence[Probe]) -> tuple[Shot, ...]:
    scored = await scorer.score([p.case for p in probes])
    return tuple(Shot(p, s) for p, s in zip(probes, scored, strict=True))
