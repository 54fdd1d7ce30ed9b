"""What is tried last, because it may cost many seconds: completions that make a regular expression backtrack, a program
that never ends, and one that leaves a process running."""

from __future__ import annotations

from collections.abc import Sequence

from prime_lab_mcp.lab.rewards import code_probes
from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.observed import Shot
from prime_lab_mcp.lab.rewards.probes import Probe, Style, assistant
from prime_lab_mcp.lab.rewards.scorer import FATAL, Scorer
from prime_lab_mcp.lab.worker.cases import Scored

NEVER_ENDS = "code: never ends"
LEAVES_PROCESS = "code: leaves a process"
LIMIT = 30.0
"""Seconds in which a reward must stop a program that never ends (facts/validation 2.2 `code_hacks`)."""
_HEAVY = "heavy"
_ENDLESS = "while True:\n    pass"


def is_heavy(probe: Probe) -> bool:
    """Made to be slow."""
    return probe.name.startswith(_HEAVY)


async def endure(scorer: Scorer, heavy: Sequence[Probe], style: Style, gold: Gold) -> tuple[Shot, ...]:
    """Score the heavy ones until one hangs; where golds are programs, then the two programs. `gold` is any task's."""
    shots: list[Shot] = []
    if not scorer.gave_up:
        for probe, scored in zip(heavy, await scorer.score([p.case for p in heavy], patience=1), strict=True):
            shots.append(Shot(probe, scored))
    if not style.programs or scorer.faulty:
        return tuple(shots)
    for name, program in ((LEAVES_PROCESS, code_probes.leaves_process(style.said(gold))), (NEVER_ENDS, _ENDLESS)):
        probe = Probe(f"{gold.row}/{name}", "hack", name, gold.row, assistant(style.carrier.wrap(program)))
        (scored,) = await scorer.worker.score([probe.case], case_timeout=LIMIT)
        shots.append(Shot(probe, scored))
        if _inside(scored):
            break
    return tuple(shots)


def _inside(scored: Scored) -> bool:
    """The program ran in the reward's own process, or broke it: one that never ends would hang it for certain."""
    return "evaluated-output" in scored.problems or bool(FATAL & set(scored.problems))
