"""What a trial does otherwise where rewards ask a judge: every question takes seconds and may cost money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from prime_lab_mcp.lab.rewards.observed import Judging, Shot
from prime_lab_mcp.lab.rewards.probes import Kind, Probe
from prime_lab_mcp.lab.worker.cases import JudgeInfo, Loaded, Scored

CASE_SECONDS = 60.0
"""What scoring one completion may take where a judge is asked."""
GOLDS = 24
"""Golds that are scored (facts/validation 2.2 asks for 20)."""
REPEATED = 24
_LONGEST = 12_000
"""Characters of a completion; a judge is paid by the token."""
_TASKS: dict[Kind, int] = {"gold": 8, "wrong": 8, "cross": 20, "verbose": 4, "half-right": 2}
"""Tasks on which completions of a kind are tried; of other kinds, one."""
_WRONGS = 2
"""Wrong answers of one task."""
_PERSUASIONS = 3
"""Tasks on which a judge is persuaded: with ten texts, more than the 20 pairs that facts/validation 2.2 asks for."""


class Asked(Protocol):
    """What the relay saw."""

    @property
    def host(self) -> str: ...
    @property
    def local(self) -> str: ...
    @property
    def capped(self) -> int: ...


def asks(loaded: Loaded, scored: Iterable[Scored] = ()) -> bool:
    """Whether a reward asks a judge: as configured, or seen while these were scored."""
    return bool(loaded.judges) or any(s.judges or "judge-unreachable" in s.problems for s in scored)


def sparing(probes: Sequence[Probe]) -> list[Probe]:
    """The probes that are worth a question: what is right and wrong on several tasks, everything else on one."""
    tasks: dict[str, list[int]] = {}
    taken: Counter[tuple[int, str]] = Counter()
    found = []
    for probe in probes:
        if len(probe.completion) > _LONGEST:
            continue
        persuades = probe.name.startswith("persuasion: ")
        bare = probe.name.endswith(", bare")
        allowed = _TASKS.get(probe.kind, 1)
        if persuades:
            allowed = 1 if bare else _PERSUASIONS
        group = f"{probe.kind}{'/persuasion' if persuades else ''}{'/bare' if persuades and bare else ''}"
        known = tasks.setdefault(group, [])
        if probe.row not in known:
            if len(known) >= allowed:
                continue
            known.append(probe.row)
        taken[probe.row, probe.kind] += 1
        if probe.kind == "wrong" and taken[probe.row, "wrong"] > _WRONGS:
            continue
        found.append(probe)
    return found


def judging(loaded: Loaded, shots: Iterable[Shot], stated: str, relay: Asked | None) -> Judging | None:
    """What is known of the judges. `stated` is the text in which a model may be named: code and arguments.

    What was really asked is shown where something was; a configured judge that no completion reached, as configured.
    """
    seen = dict.fromkeys(j for s in shots for j in s.scored.judges)
    failed = any("judge-unreachable" in s.scored.problems for s in shots)
    if not seen and not loaded.judges and not failed:
        return None
    models = {j.model for j in seen}
    judges = [*seen, *(j for j in loaded.judges if j.model not in models)]
    if relay is not None:
        judges = [_through(j, relay) for j in judges]
    named = frozenset(j.model for j in judges if j.model and j.model in stated)
    through, capped = (None, 0) if relay is None else (relay.host, relay.capped)
    return Judging(tuple(judges), named, through, capped)


def _through(judge: JudgeInfo, relay: Asked) -> JudgeInfo:
    """The endpoint behind our relay instead of the relay."""
    host = relay.host if judge.host == relay.local else judge.host
    return JudgeInfo(judge.name, judge.model, judge.temperature, host)
