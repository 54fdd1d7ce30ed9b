"""Whether a reward computes at all: exceptions, time, types, finite numbers, and the same result for the same input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prime_lab_mcp.lab.checks.judges import by_judge
from prime_lab_mcp.lab.checks.properties import PROPERTIES
from prime_lab_mcp.lab.checks.shown import case_row, paid
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.rewards.enduring import NEVER_ENDS
from prime_lab_mcp.lab.rewards.observed import EPSILON, JUDGE_FAILED, Repeat, Shot, Trial, differs, same
from prime_lab_mcp.lab.rewards.scorer import SLOW_MS as VERY_SLOW_MS
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Scored

Check = Callable[[Trial], Iterator[Finding]]
SLOW_MS = 1000.0
"""A reward this slow holds up training (facts/validation 2.2, `redos`)."""
_BROKE = frozenset({"exited", "flood", "memory", "nonsense"})
_SYNC = frozenset({"sync-reward", "sync-metric"})


def sync(trial: Trial) -> Iterator[Finding]:
    """verifiers 0.4 awaits every reward; one plain `def` loses the scores of the whole task."""
    shots = trial.with_problem(*_SYNC)
    if shots:
        yield Finding(
            "reward-sync",
            "blocker",
            f"a reward or metric is a plain function: {_said(shots[0])}",
            "Write `async def` for every @vf.reward and @vf.metric.",
        )


def raises(trial: Trial) -> Iterator[Finding]:
    """An exception is recorded as an error or, in v0, as a reward of 0: either way the completion is not judged."""
    shots = [
        s
        for s in trial.everything
        if (s.scored.errors or _BROKE & set(s.scored.problems))
        and not {"timeout", "not-run", "no-such-row"} & set(s.scored.problems)
        and not (_SYNC | JUDGE_FAILED) & set(s.scored.problems)
        and not any(p.startswith("not-a-float") for p in s.scored.problems)
    ]
    if shots:
        kinds = sorted({s.probe.name for s in shots})
        yield Finding(
            "reward-raises",
            "blocker",
            f"scoring failed for {count(len(shots), 'completion')} ({', '.join(kinds[:4])}"
            f"{', …' if len(kinds) > 4 else ''}): {_said(shots[0])}",
            "Return 0.0 for whatever a model may write; raise only where the task itself is broken.",
            where=shots[0].scored.errors[0].where or None if shots[0].scored.errors else None,
            rows=tuple(case_row(s, "a number", trial) for s in shots[:3]),
        )


def _said(shot: Shot) -> str:
    if not shot.scored.errors:
        return ", ".join(shot.scored.problems)
    error = shot.scored.errors[0]
    if error.type in ("SystemExit", "KeyboardInterrupt"):
        said = quote(f"{error.type}: {error.message}", 120)
        return f"{said}; it ends the process that scores all rollouts, as an except for Exception does not catch it"
    return quote(f"{error.type}: {error.message}", 200)


def slow(trial: Trial) -> Iterator[Finding]:
    """A reward that hangs stops training; a slow one is paid for in GPU hours."""
    hung = [s for s in trial.with_problem("timeout") if s.probe.name != NEVER_ENDS]
    if hung:
        yield Finding(
            "reward-slow",
            "blocker",
            f"{count(len(hung), 'completion')} got no reward within 5 seconds ({hung[0].probe.name})",
            "Remove the loop, the wait or the backtracking regular expression; give outside calls a time limit.",
            rows=tuple(case_row(s, "a reward within 5 seconds", trial) for s in hung[:3]),
        )
        return
    shots = [s for s in trial.everything if s.scored.ms > SLOW_MS and not _BROKE & set(s.scored.problems)]
    asked = {id(s) for s in trial.asked_judge}
    shots = [s for s in shots if s.probe.name != NEVER_ENDS and id(s) not in asked]  # a judge takes seconds
    taken = sum(s.scored.ms for s in shots if s.scored.ms > VERY_SLOW_MS) / 1000
    if shots and trial.gave_up and taken > 0:
        yield Finding(
            "reward-slow",
            "blocker",
            f"scoring {count(len(shots), 'completion')} took {taken:.0f} seconds, so the rest was not tried "
            f"({count(len(trial.with_problem('not-run')), 'completion')})",
            "Make it faster: load what it needs once, and avoid waits and nested quantifiers.",
            rows=tuple(case_row(s, "a reward within a second", trial) for s in shots[:3]),
        )
        return
    if shots:
        worst = max(shots, key=lambda s: s.scored.ms)
        yield Finding(
            "reward-slow",
            "warning",
            f"scoring took more than a second for {count(len(shots), 'completion')} "
            f"(up to {worst.scored.ms / 1000:.1f} s)",
            "Make it faster: load what it needs once, and avoid nested quantifiers in regular expressions.",
            rows=(case_row(worst, "a reward within a second", trial),),
        )


def wrong_type(trial: Trial) -> Iterator[Finding]:
    """What is no number becomes an error (v1) or a silent 0 (v0)."""
    shots = trial.with_problem("not-a-float")
    if shots:
        kinds = sorted({p.split(":", 1)[1] for s in shots for p in s.scored.problems if p.startswith("not-a-float:")})
        yield Finding(
            "reward-type",
            "blocker",
            f"a reward returned {quote(', '.join(kinds), 80)}, no number, for {count(len(shots), 'completion')}",
            "Return a float on every path, also where no answer is found.",
            rows=tuple(case_row(s, "a number", trial) for s in shots[:3]),
        )


def nonfinite(trial: Trial) -> Iterator[Finding]:
    """One NaN poisons the mean of its whole group."""
    shots = trial.with_problem("nonfinite")
    if shots:
        yield Finding(
            "reward-nonfinite",
            "blocker",
            f"{count(len(shots), 'completion')} earned NaN or infinity ({shots[0].probe.name})",
            "Parse numbers so that nan, inf and overflow count as no answer; guard divisions and logarithms.",
            rows=tuple(case_row(s, "a finite number", trial) for s in shots[:3]),
        )


def nondeterministic(trial: Trial) -> Iterator[Finding]:
    """The same completion must earn the same; else the group's advantages are noise, or depend on what came before."""
    differing = [r for r in trial.repeats if differs(r) and not by_judge(r)]
    if not differing:
        return
    # What a shared state did once, it does not undo: later passes then agree with each other but not with the first.
    by_order = all(same(r.first.reward, r.again.reward) or same(r.again.reward, r.reverse.reward) for r in differing)
    if by_order:
        yield _unsteady(
            trial, differing, "reward-order-dependent", "what was scored before",
            "Keep nothing between calls: no module-level or task-level lists, caches or counters in the reward.",
        )  # fmt: skip
    else:
        yield _unsteady(
            trial, differing, "reward-nondeterministic", "chance or the clock",
            "Take random numbers, time and unordered sets out of the reward; pin what a judge model may vary.",
        )  # fmt: skip


def _unsteady(trial: Trial, differing: Sequence[Repeat], code: str, on: str, fix: str) -> Finding:
    first = differing[0]
    values = ", ".join(
        "none" if s.reward is None else f"{s.reward:g}" for s in (first.first, first.again, first.reverse)
    )
    return Finding(
        code,
        "blocker",
        f"{count(len(differing), 'completion')} of {len(trial.repeats)} earned different rewards for the same text "
        f"({values}); the reward depends on {on}",
        fix,
        rows=tuple(case_row(Shot(r.probe, r.again), f"{_shown(r.first)} as before", trial) for r in differing[:3]),
    )


def _shown(scored: Scored) -> str:
    return "none" if scored.reward is None else f"{scored.reward:g}"


def changing_tasks(trial: Trial) -> Iterator[Finding]:
    """Tasks that differ from load to load cannot be evaluated or resumed."""
    codes = {"task-changed", "no-such-row"}
    shots = trial.with_problem(*codes) or [a.shot for a in trial.abroad if codes & set(a.there.problems)]
    if shots:
        yield Finding(
            "tasks-change",
            "blocker",
            f"task {shots[0].probe.row} was another one when the environment was loaded again",
            "Make loading deterministic: seed what is random, sort what is unordered, pin the dataset's revision.",
        )


def unscored(trial: Trial) -> Iterator[Finding]:
    """What this version cannot score is said, not passed over."""
    grouped = trial.with_problem("group-reward")
    container = trial.with_problem("needs-container")
    for shots, what in (
        (grouped, "a group reward saw one completion at a time here, in training it sees a whole group"),
        (container, "tasks that need a container were scored in a plain process"),
    ):
        if shots:
            severity: Severity = "warning"
            yield Finding(
                "reward-partly-tested", severity, what, "Look at the rewards of a small run_eval before training."
            )


def unreached(trial: Trial) -> Iterator[Finding]:
    """A component that no right answer earns is either an oversight or hard to reach."""
    golds = [s for s in (*trial.golds, *trial.of("gold", "verbose")) if s.reward is not None]
    if len(golds) < 2 or trial.max_reward <= 0:
        return
    for info in trial.rewards:
        scores = [s.scored.components[info.name].score for s in golds if info.name in s.scored.components]
        known = [s for s in scores if s is not None]
        if info.kind != "metric" and info.weight > 0 and known and max(known) <= EPSILON:
            best = max(golds, key=lambda s: s.reward or 0)
            yield Finding(
                "reward-too-strict",
                "warning",
                f"no right answer earned anything from {quote(info.name, 80)} (weight {info.weight:g}): "
                f"{paid(best, trial)}",
                "Check what this part looks for; if nothing can earn it, remove it.",
            )


SCORING: tuple[Check, ...] = (
    sync, raises, slow, wrong_type, nonfinite, nondeterministic, changing_tasks, unscored, unreached,
    *PROPERTIES,
)  # fmt: skip
