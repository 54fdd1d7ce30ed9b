"""What a finished evaluation does not prove about training: other sampling, other files, tasks or solutions.

A finding that blocks makes the verdict inconclusive, because nothing is then known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.state.ledger.rows import Job

FOREIGN = "hub:"
"""Prefix of the fingerprint of an environment whose files are not known to be those of this workspace."""
TRAINING_TEMPERATURE = 1.0
"""Default sampling temperature of prime-rl. The share of usable groups holds only for this temperature."""
_GREEDY = 0.3
"""Temperature below which rollouts of one task are too alike for a failed verdict to count."""
_TRAINING: Mapping[str, float] = {"temperature": TRAINING_TEMPERATURE, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
"""Sampling arguments of prime-rl in training (docs/validation.md, Sampling)."""


def evidence_limits(spec: EvalSpec, job: Job, *, failed: bool) -> Iterator[Finding]:
    """Yield a finding for each thing that the evaluation leaves open. `failed` is the verdict on the rewards alone."""
    difference = sampling_difference(spec.sampling)
    if difference:
        yield Finding(
            "distribution-other-sampling",
            "blocker" if failed and spec.temperature < _GREEDY else "warning",
            f"sampled {difference}: the share of usable groups does not carry over",
            Fix("Run ", NamedCall("run_eval").without("temperature"), "."),
        )
    drawn = draw_limit(spec)
    if drawn is not None:
        yield drawn
    if spec.hosted is not None:
        yield from _hosted_limits(spec, job)
    yield from _rehearsal_limits(spec)
    if spec.order == "file":
        yield Finding(
            "eval-file-order",
            "info",
            f"verifiers {spec.verifiers} takes tasks in file order, not a random sample",
            "Shuffle the data in the environment if its order means something.",
        )


_MOST_BIAS = 0.1
"""Share of drawn tasks that may be others than in a plain draw. It moves the share of usable groups by as much at most
(our choice)."""


def draw_limit(spec: EvalSpec) -> Finding | None:
    """Return a blocker if the tasks were drawn by a field whose values have other shares in the tasks of training."""
    if not spec.by or spec.draw_bias <= _MOST_BIAS:
        return None
    return Finding(
        "distribution-drawn",
        "blocker",
        f"its tasks were drawn in equal shares by {quote(spec.by, 60)}, and training draws from all tasks alike: "
        f"{spec.draw_bias:.0%} of them would be others, so that the share of usable groups is not that of training",
        Fix(
            "To push or to train, run ", NamedCall("run_eval").without("by"), "; this one shows how the values differ."
        ),
    )


def sampling_difference(sampling: Mapping[str, Any]) -> str | None:
    """Return how the sampling differs from that of training, in words. None if it does not differ."""
    differences = [
        f"at {name} {float(value):g}, while training samples at {trained:g}"
        for name, trained in _TRAINING.items()
        if isinstance(value := sampling.get(name), int | float) and value != trained
    ]
    return "; ".join(differences) or None


def _hosted_limits(spec: EvalSpec, job: Job) -> tuple[Finding, ...]:
    """Return a blocker if another version than the planned one may have run on the platform."""
    moved = job.progress.get("moved")
    foreign = spec.source.startswith(FOREIGN)
    if moved is False:
        return (_not_evidence(spec),) if foreign else ()
    reason = (
        "the Hub's latest version changed while it started"
        if moved
        else "the Hub did not say which version is its latest"
    )
    unknown = f"{reason}, so it is not known that {spec.hosted} is what ran"
    again = NamedCall("run_eval", hosted=True)
    if foreign:
        fix = Fix("Run ", again, " again; take no sizes of a config from this evaluation.")
    else:
        push = NamedCall("push_environment")
        fix = Fix("Run ", again, " again; ", push, " first if the Hub's latest version is not yours.")
    return (Finding("hosted-version-moved", "blocker", unknown, fix),)


def _not_evidence(spec: EvalSpec) -> Finding:
    return Finding(
        "distribution-not-evidence",
        "info",
        f"what ran is {spec.hosted} as the Hub holds it, an environment of others: training on it needs no "
        "evidence from here, and this evaluation opens no gate of an environment of yours",
        "Nothing is to be changed: a config for it takes its sizes from this evaluation.",
    )


def _rehearsal_limits(spec: EvalSpec) -> Iterator[Finding]:
    """Yield a warning if the rehearsal's scripted model could not play the solutions of all tasks."""
    if spec.rehearsed is None or spec.rehearsed[0] >= spec.rehearsed[1]:
        return
    playable, tasks = spec.rehearsed
    solutions = f"the solutions of {playable} of {count(tasks, 'task')} can be played" if playable else "none is stated"
    yield Finding(
        "rehearsal-cannot-play",
        "warning",
        f"the rehearsal's model has no way to use tools or play turns without the solution of a task, and {solutions}: "
        "elsewhere it answers at once, so these rewards say nothing about tools or turns",
        'State how a task is solved (read_reference(topic="guide/rewards"), "Solutions"), then call run_eval; a real '
        "model needs no solution.",
    )
