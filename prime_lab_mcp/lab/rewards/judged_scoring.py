"""What a trial does where a reward asks a judge: it scores fewer completions, and says which judges were asked.

Each question takes seconds and may cost money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from prime_lab_mcp.lab.rewards.observations import JudgeUse, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Probe
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind
from prime_lab_mcp.lab.worker.description import JudgeInfo, Loaded
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.scoring import Scored

JUDGED_CASE_SECONDS = 60.0
"""Time limit in seconds for scoring one completion if the reward asks a judge."""
JUDGED_GOLDS = 24
"""Largest number of golds that a judge scores (docs/validation.md, Reward tests, requires 20)."""
JUDGED_REPEATS = 24
"""Largest number of completions that a judge scores again."""
_LONGEST = 12_000
"""Longest completion that a judge scores, in characters, because a judge costs money by the token."""
_TASKS: dict[Kind, int] = {"gold": 8, "wrong": 8, "cross": 20, "verbose": 4, "half-right": 2}
"""Number of tasks on which a judge scores completions of a kind. It is one for all other kinds."""
_WRONGS = 2
"""Number of wrong answers to each task that a judge scores."""
_PERSUASIONS = 3
"""Number of tasks on which the persuasions of a judge are tried. With ten texts this gives more than the 20 pairs that
docs/validation.md, Reward tests, requires."""


class RelayCounts(Protocol):
    """A relay to a judge: the endpoint's host, the relay's own address, and the number of refused questions."""

    @property
    def host(self) -> str: ...
    @property
    def local(self) -> str: ...
    @property
    def capped(self) -> int: ...
    @property
    def stand_in(self) -> bool: ...


def asks_judge(loaded: Loaded, scored: Iterable[Scored] = ()) -> bool:
    """Whether a reward asks a judge: its configuration says so, or one of these scorings did."""
    return bool(loaded.judges) or any(s.judges or s.has(ProblemCode.JUDGE_UNREACHABLE) for s in scored)


def probes_worth_asking(probes: Sequence[Probe]) -> list[Probe]:
    """Choose the probes that a judge scores: right and wrong answers to several tasks, all other kinds on one task."""
    tasks: dict[str, list[int]] = {}
    taken: Counter[tuple[int, str]] = Counter()
    chosen = []
    for probe in probes:
        if len(probe.completion) > _LONGEST:
            continue
        persuades = probe.family is Family.PERSUASION
        allowed = _TASKS.get(probe.kind, 1)
        if persuades:
            allowed = 1 if probe.bare else _PERSUASIONS
        group = f"{probe.kind}{'/persuasion' if persuades else ''}{'/bare' if persuades and probe.bare else ''}"
        known = tasks.setdefault(group, [])
        if probe.row not in known:
            if len(known) >= allowed:
                continue
            known.append(probe.row)
        taken[probe.row, probe.kind] += 1
        if probe.kind == "wrong" and taken[probe.row, "wrong"] > _WRONGS:
            continue
        chosen.append(probe)
    return chosen


def judge_use(
    loaded: Loaded, scored_probes: Iterable[ScoredProbe], stated: str, relay: RelayCounts | None
) -> JudgeUse | None:
    """Return the judges that were asked, and configured ones that were not; None if no reward asks a judge.

    `stated` is the text in which the package may name a judge's model: its code and arguments.
    """
    asked = dict.fromkeys(j for s in scored_probes for j in s.scored.judges)
    failed = any(s.scored.has(ProblemCode.JUDGE_UNREACHABLE) for s in scored_probes)
    if not asked and not loaded.judges and not failed:
        return None
    models = {j.model for j in asked}
    judges = [*asked, *(j for j in loaded.judges if j.model not in models)]
    if relay is not None:
        judges = [_through(j, relay) for j in judges]
    named = frozenset(j.model for j in judges if j.model and j.model in stated)
    through, capped = (None, 0) if relay is None else (relay.host, relay.capped)
    return JudgeUse(tuple(judges), named, through, capped, relay is not None and relay.stand_in)


def _through(judge: JudgeInfo, relay: RelayCounts) -> JudgeInfo:
    """Return the judge with the endpoint's host in place of the relay's address."""
    host = relay.host if judge.host == relay.local else judge.host
    return JudgeInfo(judge.name, judge.model, judge.temperature, host)
