"""Rules about actions of the reward's code while it scores: it runs the completion, uses the network, writes files or
leaves processes behind."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import (
    RewardRule,
    case_row,
)
from prime_lab_mcp.lab.rewards.scorer import STRESS_SECONDS
from prime_lab_mcp.lab.worker.faults import ProblemCode

_OFTEN = 3
"""Number of completions that leave processes behind from which on the rule warns. A process pool that is started once
on purpose stays below it."""
_NAMED = 3
"""Number of hosts or paths that a message names."""


def _named(scored_probes: list[ScoredProbe], code: ProblemCode) -> str:
    """Return the first hosts or paths of a problem, quoted, and the number of others."""
    names = list(dict.fromkeys(detail for s in scored_probes for detail in s.scored.details(code)))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(quote(name, 120) for name in names[:_NAMED]) + more


def runs_completion(trial: Trial) -> Iterator[Finding]:
    """A reward must not run text of the completion in its own process: such text can set the reward or end the run.

    The proof is a Python audit event that only the text of the canary probes raises.
    """
    scored_probes = trial.with_problem(ProblemCode.EVALUATED_OUTPUT)
    if scored_probes:
        yield Finding(
            "reward-evaluates-output",
            "blocker",
            f"the reward ran text of {count(len(scored_probes), 'completion')} as Python inside of its own process "
            f"({scored_probes[0].probe.label}): such a completion can set its reward or end the training",
            "Parse the answer as a number or literal; never pass it to eval, exec, sympy's parse_expr or yaml.load. "
            "Run programs in a process of their own.",
            rows=tuple(case_row(s, "never run", trial) for s in scored_probes[:3]),
        )


def uses_network(trial: Trial) -> Iterator[Finding]:
    """Scoring should not use the network.

    The sandbox refuses connections, so the observed rewards are those without a network. A judge that could not be
    asked has a finding of its own.
    """
    opened = trial.with_problem(ProblemCode.OPENED_NETWORK)
    scored_probes = [s for s in opened if not s.scored.has(ProblemCode.JUDGE_UNREACHABLE)]
    if scored_probes:
        yield Finding(
            "reward-opens-network",
            "warning",
            f"scoring {count(len(scored_probes), 'completion')} reached for "
            f"{_named(scored_probes, ProblemCode.OPENED_NETWORK)}; it was refused, as test_reward has no network",
            "Load what is needed once, in load() or load_environment(): in training every rollout would wait for that "
            "host, and earn something else whenever it is down.",
            rows=(case_row(scored_probes[0], "a reward without network", trial),),
        )


def writes_files(trial: Trial) -> Iterator[Finding]:
    """Scoring should write only to new temporary folders.

    Training scores many rollouts concurrently in several processes, and other folders may be read-only.
    """
    outside, reused = trial.with_problem(ProblemCode.WROTE_FILES), trial.with_problem(ProblemCode.REUSED_FILE)
    if outside:
        yield Finding(
            "reward-writes-files",
            "warning",
            f"scoring {count(len(outside), 'completion')} wrote outside of temporary folders: "
            f"{_named(outside, ProblemCode.WROTE_FILES)}",
            "Return what matters as a metric. For scratch files use tempfile.TemporaryDirectory().",
            rows=(case_row(outside[0], "no file left", trial),),
        )
    elif reused:
        yield Finding(
            "reward-writes-files",
            "warning",
            f"different completions wrote the same file: {_named(reused, ProblemCode.REUSED_FILE)}; scored at "
            "once, they overwrite each other's",
            "Give every scoring a folder of its own: with tempfile.TemporaryDirectory() as folder.",
            rows=(case_row(reused[0], "a file of its own", trial),),
        )


def leaves_processes(trial: Trial) -> Iterator[Finding]:
    """Scoring should leave no process behind, because a run scores hundreds of thousands of completions on one
    machine."""
    scored_probes = [
        s for s in trial.with_problem(ProblemCode.LEFT_PROCESSES) if s.probe.family is not Family.LEAVES_PROCESS
    ]
    own = [s for s in trial.of(Family.LEAVES_PROCESS) if s.scored.has(ProblemCode.LEFT_PROCESSES)]
    if len(scored_probes) >= _OFTEN:
        yield Finding(
            "reward-leaves-processes",
            "warning",
            f"processes that scoring had started were still running after {count(len(scored_probes), 'completion')}",
            "End and await every process in a finally block; start a pool once and keep it.",
            rows=(case_row(scored_probes[0], "no process left", trial),),
        )
    elif own:
        yield Finding(
            "reward-leaves-processes",
            "warning",
            "a process that a program had started was still running after the program was scored",
            "Run programs in a container or PID namespace, or end everything below them afterwards (os.killpg misses "
            "what called setsid).",
            rows=(case_row(own[0], "no process left", trial),),
        )


def runs_endless_program(trial: Trial) -> Iterator[Finding]:
    """Scoring must stop a program that never ends: among some hundred programs of a model, about one loops forever."""
    scored_probes = [s for s in trial.of(Family.NEVER_ENDS) if s.scored.has(ProblemCode.TIMEOUT)]
    if scored_probes:
        yield Finding(
            "reward-slow",
            "blocker",
            f"a program that never ends hung the reward: no score within {STRESS_SECONDS:g} seconds",
            "Run the program in a process of its own and kill that after a few seconds.",
            rows=(case_row(scored_probes[0], f"0 within {STRESS_SECONDS:g} seconds", trial),),
        )


SIDE_ACTION_RULES: tuple[RewardRule, ...] = (
    runs_completion,
    uses_network,
    writes_files,
    leaves_processes,
    runs_endless_program,
)
