"""Scores golds and probes of example tasks, and some of them again: the part of a trial that needs a known gold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.rewards import enduring, judged, properties
from prime_lab_mcp.lab.rewards.calibrate import Calibration
from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.observed import Repeat, Shot
from prime_lab_mcp.lab.rewards.probes import Probe, build, gold_probe
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.wrong import spread
from prime_lab_mcp.lab.worker.cases import Row

_SECONDS = 10.0
"""What scoring the golds may take; a slow reward gets a smaller sample, never below `_FEW`."""
_FEW = 24
_REPEAT_MS = 3000.0
"""What scoring plain completions once more may take; of a slow reward fewer are repeated, never below `_REPEATED`."""
_REPEATED = 6


@dataclass(frozen=True, slots=True)
class Tried:
    """What golds and probes earned. `heavy` are probes left for the end, because they may hang a reward."""

    golds: tuple[Shot, ...] = ()
    shots: tuple[Shot, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    picked: tuple[Gold, ...] = ()
    heavy: tuple[Probe, ...] = ()


async def score_tasks(
    scorer: Scorer, found: Calibration, rows: Sequence[Row], *, examples: int, hacks: bool, sparing: bool
) -> Tried:
    """Score the golds of all tasks and the probes of some. `sparing`: each completion asks a judge."""
    golds = await _golds(scorer, found, sparing)
    picked = spread(found.style.golds, examples, found.style.form)
    probes = build(found.style, picked, {row.index: row for row in rows}, hacks=hacks)
    heavy = [p for p in probes if enduring.is_heavy(p)]
    shots, repeats = await _probe(scorer, [p for p in probes if p not in heavy], sparing)
    if not scorer.company:  # in other company a completion may rightly earn something else
        repeats = (*_seen_before(found, golds), *repeats)
    return Tried(golds, shots, repeats, tuple(picked), tuple(heavy))


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
    return await shoot(scorer, [gold_probe(found.style, gold) for gold in golds])


async def _probe(scorer: Scorer, probes: Sequence[Probe], sparing: bool) -> tuple[tuple[Shot, ...], tuple[Repeat, ...]]:
    shots = await shoot(scorer, judged.sparing(probes) if sparing else probes)
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


async def shoot(scorer: Scorer, probes: Sequence[Probe]) -> tuple[Shot, ...]:
    """Each probe with what it earned."""
    scored = await scorer.score([p.case for p in probes])
    return tuple(Shot(p, s) for p, s in zip(probes, scored, strict=True))
