"""Rules about what share of a batch teaches: curricula, and the measured share of groups with a gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.observed import MIN_BATCH, MIN_GROUPS, Observed, Rule, estimate, gates_resample
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote


def curricula(config: Config, seen: Observed) -> Iterator[Finding]:
    """Samplers and gates: prime-rl's own checks, and what its difficulty pool cannot work with."""
    for source in config.train_sources:
        curriculum = source.table.get("curriculum")
        if not isinstance(curriculum, Mapping):
            continue
        where = f"orchestrator.train.source {quote(source.name, limit=60)} curriculum"
        for problem in (*_gate_problems(curriculum), *_pool_problems(curriculum, seen)):
            yield Finding(
                "config-curriculum",
                "blocker",
                f"The curriculum cannot work: {problem}.",
                "Correct it, or remove the curriculum table.",
                where,
            )


def signal(config: Config, seen: Observed) -> Iterator[Finding]:
    """What share of the batch carries a gradient, from the measured share of usable groups."""
    bought = estimate(config, seen)
    if bought is None or seen.usable is None:
        return
    if bought.gradient_rollouts < MIN_BATCH or bought.gradient_groups < MIN_GROUPS:
        yield Finding(
            "config-weak-signal",
            "warning",
            f"About {bought.gradient_rollouts:.0f} of {bought.rollouts} rollouts a step ({bought.gradient_groups:.1f} "
            f"groups) would carry a gradient; {bought.discarded_share:.0%} of what is generated is discarded.",
            "Drop tasks that are always or never solved, raise group_size or batch_size, or set curriculum=\"gate\".",
            "orchestrator.batch_size",
        )  # fmt: skip
    elif gates_resample(config) and bought.generation_factor > 4:
        yield Finding(
            "config-costly-gate",
            "warning",
            f"The gate resamples until every group has a gradient: about {bought.generation_factor:.1f} times the "
            "rollouts are generated and paid for.",
            "Drop tasks that are always or never solved first.",
            "orchestrator.train.source",
        )


RULES: tuple[Rule, ...] = (
    curricula,
    signal,
)


def _gate_problems(curriculum: Mapping[str, Any]) -> Iterator[str]:
    gates = curriculum.get("gates")
    for name, gate in gates.items() if isinstance(gates, Mapping) else ():
        if isinstance(gate, Mapping):
            low, high = gate.get("reject_min", 0.0), gate.get("reject_max", 0.0)
            if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
                yield f"gate {quote(str(name), limit=40)} has reject_min {low} above reject_max {high}"


def _pool_problems(curriculum: Mapping[str, Any], seen: Observed) -> Iterator[str]:
    sampler = curriculum.get("sampler")
    if not isinstance(sampler, Mapping) or sampler.get("type") != "difficulty_pool":
        return
    if seen.infinite:
        yield "difficulty_pool needs a finite taskset, and this one is infinite"
    if seen.duplicate_tasks:
        yield "difficulty_pool refuses duplicate tasks, and this taskset has some"
    pools = sampler.get("pools")
    if pools is None:
        return
    tables = [p for p in pools.values() if isinstance(p, Mapping)] if isinstance(pools, Mapping) else []
    thresholds = [p.get("threshold") for p in tables]
    if len(set(map(str, thresholds))) != len(thresholds):
        yield "pool thresholds must differ"
    if not any(isinstance(p.get("weight"), (int, float)) and p["weight"] > 0 for p in tables):
        yield "at least one pool needs a positive weight"
