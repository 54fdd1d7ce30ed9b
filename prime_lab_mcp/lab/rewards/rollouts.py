"""Plays scripts through whole rollouts, and lets these decide where only a rollout can earn the reward.

An environment with tools, turns or a set-up may pay for what a completion alone cannot hold: what a tool stored, what
the environment noted. There right and wrong are played, not scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Supplied
from prime_lab_mcp.lab.rewards.probes import Kind, Probe, Style
from prime_lab_mcp.lab.rewards.scripts import Performed, Script
from prime_lab_mcp.lab.rewards.wrong import spread
from prime_lab_mcp.lab.worker.cases import Loaded, Row, Scored
from prime_lab_mcp.lab.worker.host import Worker

TASKS = 2
"""Tasks that every script is played on."""
DECIDING = 8
"""Tasks that right, wrong and silent rollouts are played on where they decide (facts/validation 2.1)."""
SECONDS = 20.0
_HALF = 0.5
_KINDS: dict[str, Kind] = {"gold": "gold", "wrong": "wrong", "silent": "empty"}


@dataclass(frozen=True, slots=True)
class Stage:
    """What the rollouts showed. `unavailable`: why they cannot be run here; `broken`: how the process ended in them.

    `way` is the script that says the gold where rollouts decide, else None.
    """

    performed: tuple[Performed, ...] = ()
    unavailable: str = ""
    broken: str = ""
    way: Script | None = None

    @property
    def stateful(self) -> bool:
        """The reward may read what a rollout leaves beside its messages."""
        return any(p.rolled.state for p in self.performed)


async def perform(worker: Worker, loaded: Loaded, style: Style | None, rows: Sequence[Row]) -> Stage:
    """Play every script on a few tasks; where a completion alone earns little, right and wrong on more."""
    if not loaded.turns or not rows:
        return Stage()
    golds: Sequence[Gold] = spread(style.golds, TASKS, style.form) if style is not None else ()
    wanted: list[tuple[int, Script]] = [(g.row, s) for g in golds for s in scripts.ordinary(style, g)]
    if not wanted:
        wanted = [(row.index, s) for row in rows[:TASKS] for s in scripts.ordinary(None, None)]
    stage = await _play(worker, wanted)
    way = _way(stage.performed)
    if style is None or way is None:
        return stage
    known = {g.row for g in golds}
    more = [g for g in spread(style.golds, DECIDING, style.form) if g.row not in known]
    rest = await _play(worker, [(g.row, s) for g in more for s in _deciding(style, g, way)])
    return replace(stage, performed=(*stage.performed, *rest.performed), way=way)


async def _play(worker: Worker, wanted: Sequence[tuple[int, Script]]) -> Stage:
    if not wanted:
        return Stage()
    try:
        found = await worker.rollout([scripts.play(script, row) for row, script in wanted], seconds=SECONDS)
    except LabError as error:
        if error.code == "worker-timeout":  # this machine may be what is slow
            return Stage(unavailable=error.message)
        return Stage(broken=error.message)
    performed = [Performed(row, script, told) for (row, script), told in zip(wanted, found.rolled, strict=False)]
    offered = any(p.rolled.tools for p in performed)
    kept = [p for p in performed if (offered or not p.script.tools) and p.rolled.end != "not-run"]
    return Stage(tuple(kept), found.unavailable)


def _way(performed: Sequence[Performed]) -> Script | None:
    """The script that earns the gold where a reply alone does not earn half as much."""
    right = [p for p in performed if p.script.part == "gold" and p.scored]
    best = max(right, key=lambda p: p.rolled.reward or 0.0, default=None)
    if best is None or (best.rolled.reward or 0.0) <= EPSILON:
        return None
    plain = [p.rolled.alone for p in right if not p.script.tools and p.rolled.alone is not None]
    spoken = max(plain, default=0.0)
    return best.script if spoken < _HALF * (best.rolled.reward or 0.0) else None


def _deciding(style: Style, gold: Gold, way: Script) -> list[Script]:
    said, text, wrong = style.said(gold), style.render(gold), scripts.wrong_of(style, gold)
    if not way.tools:
        return [scripts.said_gold(text), scripts.said_wrong(style.carrier.wrap(wrong)), scripts.silent()]
    again: dict[str, Script] = {s.name: s for s in scripts.ordinary(style, gold)}
    answered: list[Script] = [again.get(way.name, scripts.through_tools("gold", said, text))]
    return [*answered, scripts.through_tools("wrong", wrong, style.carrier.wrap(wrong)), scripts.silent()]


def shots(stage: Stage) -> tuple[tuple[Shot, ...], tuple[Shot, ...]]:
    """Golds, and all rollouts that decide, as what completions are judged as."""
    assert stage.way is not None
    found = []
    for p in stage.performed:
        kind = _KINDS.get(p.script.part)
        other_way = p.script.part == "gold" and p.script.name != stage.way.name
        if kind is not None and not other_way and p.scored:
            found.append(_shot(p, kind))
    return tuple(s for s in found if s.probe.kind == "gold"), tuple(found)


def _shot(performed: Performed, kind: Kind, name: str = "") -> Shot:
    rolled = performed.rolled
    probe = Probe(f"rollout/{performed.row}", kind, name or f"rollout: {performed.script.name}", performed.row,
                  tuple(rolled.messages))  # fmt: skip
    return Shot(probe, Scored(probe.id, rolled.reward, rolled.components, {}, rolled.errors, (), rolled.ms))


async def replayed(worker: Worker, supplied: Sequence[Supplied]) -> tuple[Supplied, ...]:
    """Supplied cases played through rollouts: what the assistant says in them, answered by the environment.

    A case whose rollout does not come to an end stays as it was scored.
    """
    wanted = [(s.shot.probe.row, scripts.replay(s.shot.probe.name, s.shot.probe.messages)) for s in supplied]
    stage = await _play(worker, wanted)
    if len(stage.performed) != len(supplied):
        return tuple(supplied)
    return tuple(
        Supplied(_shot(p, "gold", s.shot.probe.name), s.expected) if p.scored else s
        for p, s in zip(stage.performed, supplied, strict=True)
    )
