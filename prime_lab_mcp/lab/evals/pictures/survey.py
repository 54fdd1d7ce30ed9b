"""One pass over the rollouts of an evaluation for what its picture and its page show, in bounded memory.

Kept in the job's folder under the sha256 of the results, so that it is made once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.pictures.telling import Telling, Tellings
from prime_lab_mcp.lab.evals.results import Rollout, read
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.zeros import classify

STEPS = 20
"""Bars of the histogram stand at 0, 1/20, ... 1 of what is attainable, so that exact 0 and 1 have one of their own."""
MOST_BARS = 120
"""More tasks than this are drawn several to a bar."""
_VERSION = 2
"""Part of the name under which a survey is kept: raise it when the same results give another one."""


@dataclass(frozen=True, slots=True)
class TaskBar:
    """`width` tasks next to each other in the order of their means, and the mean of those; reward / attainable."""

    width: int
    mean: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts of rollouts, task means from worst to best, and a few rollouts that tell the most."""

    rollouts: int
    failed: int
    """Rollouts without a finite reward: errors of machinery and rewards that are no number. No wrong answers."""
    bars: tuple[int, ...]
    """Scored rollouts by reward / attainable, `STEPS` + 1 of them."""
    below: int
    above: int
    """Scored rollouts under 0 and over what is attainable."""
    tasks: tuple[TaskBar, ...]
    zeros: Mapping[str, int]
    telling: tuple[Telling, ...]

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Survey:
        """The inverse of `asdict`; raises TypeError or KeyError for anything else."""
        values = dict(raw)
        values["bars"] = tuple(values["bars"])
        values["tasks"] = tuple(TaskBar(**bar) for bar in values["tasks"])
        values["telling"] = tuple(Telling(**row) for row in values["telling"])
        return cls(**values)


def survey(
    rollouts: Iterable[Rollout], attainable: float, cap: int | None = None, weights: Mapping[str, float] | None = None
) -> Survey:
    """Memory in proportion to tasks: their sums, and one rollout per kind of telling one. `cap`: tokens of a reply."""
    total = failed = below = above = 0
    bars = array("q", [0] * (STEPS + 1))
    sums: dict[str, list[float]] = {}
    zeros: Counter[str] = Counter()
    telling = Tellings(attainable)
    for rollout in rollouts:
        total += 1
        found = classify(rollout, cap=cap, weights=weights)
        zero = found.kind if found is not None else None
        if zero is not None:
            zeros[zero] += 1
        telling.see(rollout, zero)
        if rollout.reward is None or rollout.nonfinite:
            failed += 1
            continue
        value = rollout.reward / attainable
        task = sums.setdefault(rollout.task, [0.0, 0.0])
        task[0] += value
        task[1] += 1
        if -1e-9 <= value <= 1 + 1e-9:
            bars[math.floor(value * STEPS + 0.5)] += 1
        elif value < 0:
            below += 1
        else:
            above += 1
    means = sorted(total / n for total, n in sums.values())
    return Survey(total, failed, tuple(bars), below, above, tuple(_joined(means)), dict(zeros), telling.found())


def _joined(means: list[float]) -> Iterable[TaskBar]:
    """At most `MOST_BARS` bars of as many tasks each as possible."""
    held = -(-len(means) // MOST_BARS) or 1
    for start in range(0, len(means), held):
        part = means[start : start + held]
        yield TaskBar(len(part), math.fsum(part) / len(part))


def surveyed(results: Path, sha256: str, attainable: float, folder: Path, spec: EvalSpec) -> Survey:
    """The survey of a job's results file, from `folder` where it was made before."""
    name = hashlib.sha256(f"{_VERSION} {sha256} {attainable!r}".encode()).hexdigest()[:16]
    kept = folder / f"survey-{name}.json"
    try:
        return Survey.from_json(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        found = survey(read(results), attainable, spec.max_tokens, spec.weights)
    with suppress(OSError):  # kept where there is room for it
        replace(kept, json.dumps(asdict(found)))
    return found


def replace(path: Path, text: str) -> None:
    """Write a file of ours whole: who reads it at the same time sees the old one or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
