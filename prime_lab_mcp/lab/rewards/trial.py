"""Carries out one trial of a reward: golds, probes, repetitions, supplied cases, all through one loaded worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.rewards import judged, process_bound, properties
from prime_lab_mcp.lab.rewards.calibrate import Calibration, calibrate
from prime_lab_mcp.lab.rewards.carriers import Carrier
from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.observed import Expected, Repeat, Shot, Supplied, Trial
from prime_lab_mcp.lab.rewards.probes import Probe, Style, build, gold_probe
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.supplied import Wanted, place
from prime_lab_mcp.lab.rewards.wrong import spread
from prime_lab_mcp.lab.worker.cases import Case, Loaded, Row, Rows, Scored
from prime_lab_mcp.lab.worker.host import Worker

GOLD_TASKS = 500
"""Tasks whose gold is scored; of a larger taskset a seeded sample."""
_SECONDS = 20.0
"""What scoring the golds may take; a slow reward gets a smaller sample, never below `_FEW`."""
_FEW = 24
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
    found = await calibrate(scorer, sample.rows, source, carrier, sparing)
    sparing = sparing or (found is not None and judged.asks(loaded, (s for _, s in found.scored)))
    style = found.style if found is not None else None
    probes, unmatched = place(cases(style), sample.rows, style)
    golds = _tried(found)
    shots: tuple[Shot, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    if found is not None and found.mean is not None:
        golds = await _golds(scorer, found, sparing)
        picked = spread(found.style.golds, examples, found.style.form)
        shots, repeats = await _probe(scorer, found.style, picked, sample.rows, hacks, sparing)
        repeats = (*_seen_before(found, golds), *repeats)
    supplied = await _supplied(scorer, probes)
    known = [*shots, *(s.shot for s in supplied)]
    alive = bool(known) and not scorer.faulty and not sparing
    behaviour = await properties.behave(worker, known) if alive else None
    abroad = await properties.abroad(worker, known, repeats) if alive and several else ()
    shown = [*golds, *known]
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


async def _probe(
    scorer: Scorer, style: Style, picked: Sequence[Gold], rows: Sequence[Row], hacks: bool, sparing: bool
) -> tuple[tuple[Shot, ...], tuple[Repeat, ...]]:
    probes = build(style, picked, {row.index: row for row in rows}, hacks=hacks)
    shots = await _shoot(scorer, judged.sparing(probes) if sparing else probes)
    plain = [s for s in shots if s.probe.kind in ("gold", "verbose", "wrong", "malformed", "empty")]
    slow = sum(s.scored.ms for s in plain) > _SECONDS * 1000 / 4
    plain = plain[:24] if slow else plain
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
