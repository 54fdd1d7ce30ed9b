"""Recommends calls after an evaluation in which the model solved almost nothing: ways to let it solve something.

A run on such tasks has no gradient. Where the rewards are sound, the model gets an easier level, longer replies or more
strength; the prompt `solve_something` says which to try first. The level comes from the arguments that the last
`check_environment` recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.distribution.rules import TRUNCATED_WARN
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.plan import MAX_TOKENS, run_eval_arguments
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab

_TOO_HARD = frozenset(
    {
        "distribution-dead",
        "distribution-all-zero",
        "distribution-too-hard",
        "distribution-too-hard-mostly",
        "distribution-at-floor",
    }
)
LEVEL_NAMES = frozenset({"level", "levels", "difficulty", "difficulties", "tier", "stage", "hardness"})
"""Names of arguments that choose how hard the tasks are. Their choices are listed from the easiest on."""
ALL_LEVELS = frozenset({"all", "any", "mixed", "mix", "every"})


def easier_calls(lab: Lab, spec: EvalSpec, judged: Distribution) -> tuple[Next, ...]:
    """Return the calls after an evaluation that shows too hard tasks; empty after any other."""
    if not _TOO_HARD.intersection(f.code for f in judged.findings if f.severity != "info") or spec.hosted is not None:
        return ()
    again = run_eval_arguments(spec)
    calls = [
        Next("run_eval", f"the easiest tasks, if {name} is what makes them hard", again | {"env_args": arguments})
        for name, arguments in _easiest(lab, spec)
    ]
    if judged.truncation_rate > TRUNCATED_WARN:
        longer = 2 * (spec.max_tokens or MAX_TOKENS)
        calls.append(Next("run_eval", "replies that are not cut off", again | {"max_tokens": longer}))
    calls.append(Next("search_hub", "stronger models, also for a warm-up", {"kind": "model"}))
    why = "partial credit that cannot be gamed, levels, turns and limits"
    calls.append(Next("read_reference", why, {"topic": "guide/rewards"}))
    return tuple(calls)


def _easiest(lab: Lab, spec: EvalSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (argument, arguments of the environment) with the easiest level, unless it was evaluated already."""
    checks = lab.ledger.evidence(lab.key, tool="check_environment", source=spec.source, limit=1)
    listed = checks[0].data.get("args") if checks else None
    for argument in listed if isinstance(listed, list) else ():
        name = argument.get("name") if isinstance(argument, Mapping) else None
        if not isinstance(name, str) or name.rpartition(".")[2].casefold() not in LEVEL_NAMES or "." in name:
            continue
        levels = [c for c in argument.get("choices") or () if str(c).casefold() not in ALL_LEVELS]
        if len(levels) > 1 and spec.env_args.get(name, argument.get("default")) != levels[0]:
            yield name, {**spec.env_args, name: levels[0]}
