"""What scoring did beside returning a number: ran the completion, used the network, wrote files, left processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.shown import case_row
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.enduring import LEAVES_PROCESS, LIMIT, NEVER_ENDS
from prime_lab_mcp.lab.rewards.observed import Shot, Trial
from prime_lab_mcp.lab.text import count, quote

Check = Callable[[Trial], Iterator[Finding]]
_OFTEN = 3
"""Completions that leave processes: a pool that is kept on purpose is started once."""
_NAMED = 3


def _named(shots: list[Shot], code: str) -> str:
    """What stands behind a problem code: hosts or paths."""
    found = (p.partition(":") for s in shots for p in s.scored.problems)
    names = list(dict.fromkeys(what for known, _, what in found if known == code))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(quote(name, 120) for name in names[:_NAMED]) + more


def evaluates(trial: Trial) -> Iterator[Finding]:
    """Proof by an event that only the completion's text raises: who writes the completion has the reward's process."""
    shots = trial.with_problem("evaluated-output")
    if shots:
        yield Finding(
            "reward-evaluates-output",
            "blocker",
            f"the reward ran text of {count(len(shots), 'completion')} as Python inside of its own process "
            f"({shots[0].probe.name}): such a completion can set its reward or end the training",
            "Parse the answer as a number or literal; never pass it to eval, exec, sympy's parse_expr or yaml.load. "
            "Run programs in a process of their own.",
            rows=tuple(case_row(s, "never run", trial) for s in shots[:3]),
        )


def network(trial: Trial) -> Iterator[Finding]:
    """It is refused here, so what the reward paid is what it pays when the other side is down."""
    shots = trial.with_problem("opened-network")
    if shots:
        yield Finding(
            "reward-opens-network",
            "warning",
            f"scoring {count(len(shots), 'completion')} reached for {_named(shots, 'opened-network')}; it was refused, "
            "as test_reward has no network",
            "Load what is needed once, in load() or load_environment(): in training every rollout would wait for that "
            "host, and earn something else whenever it is down.",
            rows=(case_row(shots[0], "a reward without network", trial),),
        )


def files(trial: Trial) -> Iterator[Finding]:
    """Rollouts are scored many at a time, in several processes, in folders that may be read-only."""
    outside, reused = trial.with_problem("wrote-files"), trial.with_problem("reused-file")
    if outside:
        yield Finding(
            "reward-writes-files",
            "warning",
            f"scoring {count(len(outside), 'completion')} wrote outside of temporary folders: "
            f"{_named(outside, 'wrote-files')}",
            "Return what matters as a metric. For scratch files use tempfile.TemporaryDirectory().",
            rows=(case_row(outside[0], "no file left", trial),),
        )
    elif reused:
        yield Finding(
            "reward-writes-files",
            "warning",
            f"different completions wrote the same file: {_named(reused, 'reused-file')}; scored at once, they "
            "overwrite each other's",
            "Give every scoring a folder of its own: with tempfile.TemporaryDirectory() as folder.",
            rows=(case_row(reused[0], "a file of its own", trial),),
        )


def processes(trial: Trial) -> Iterator[Finding]:
    """A run scores hundreds of thousands of completions on one machine."""
    shots = [s for s in trial.with_problem("left-processes") if s.probe.name != LEAVES_PROCESS]
    own = [s for s in trial.named(LEAVES_PROCESS) if "left-processes" in s.scored.problems]
    if len(shots) >= _OFTEN:
        yield Finding(
            "reward-leaves-processes",
            "warning",
            f"processes that scoring had started were still running after {count(len(shots), 'completion')}",
            "End and await every process in a finally block; start a pool once and keep it.",
            rows=(case_row(shots[0], "no process left", trial),),
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


def endless(trial: Trial) -> Iterator[Finding]:
    """One program in some hundred loops for ever; without a limit it holds the scoring for ever too."""
    shots = [s for s in trial.named(NEVER_ENDS) if "timeout" in s.scored.problems]
    if shots:
        yield Finding(
            "reward-slow",
            "blocker",
            f"a program that never ends hung the reward: no score within {LIMIT:g} seconds",
            "Run the program in a process of its own and kill that after a few seconds.",
            rows=(case_row(shots[0], f"0 within {LIMIT:g} seconds", trial),),
        )


HOSTILE: tuple[Check, ...] = (evaluates, network, files, processes, endless)
