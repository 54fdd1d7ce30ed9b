"""Rules about scoring itself: exceptions, time, types, finite numbers, determinism and side effects.

A reward must give the same result for the same input, alone and under concurrency, in one process and in another, and
must leave its inputs unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import (
    EPSILON,
    RepeatedScore,
    ScoredProbe,
    Trial,
    differs_on_repeat,
    same_reward,
)
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, case_row, paid_text
from prime_lab_mcp.lab.rewards.rules.judges import by_judge
from prime_lab_mcp.lab.rewards.scorer import SLOW_MS, VERY_SLOW_MS
from prime_lab_mcp.lab.worker.faults import UNKNOWN_REWARD, ProblemCode

BLOCKS_MS = 100.0
"""Longest time in ms for which scoring may block the event loop (docs/validation.md, Reward tests)."""
_NOT_COMPARABLE = frozenset(
    {
        ProblemCode.TASK_CHANGED,
        ProblemCode.NO_SUCH_ROW,
        ProblemCode.NOT_RUN,
        ProblemCode.TIMEOUT,
    }
)
"""Problems after which the reward in another process cannot be compared."""
_DECIDING_WEIGHT = 0.5
"""Share of the positive weights above which a component that nobody earned leaves the verdict open."""
_ATTAINABLE = 0.5
_BOUND = 1.0


def other_process(trial: Trial) -> Iterator[Finding]:
    """Another process must give the same reward: training scores in many processes, and differences are noise within a
    group.
    """
    shots = [
        a
        for a in trial.other_process
        if not a.there.has(*_NOT_COMPARABLE) and not same_reward(a.shot.reward, a.there.reward)
    ]
    if shots:
        first = shots[0]
        yield Finding(
            "reward-nondeterministic",
            "blocker",
            f"{count(len(shots), 'completion')} of {len(trial.other_process)} earned another reward in a second "
            f"process ({_reward_text(first.shot.reward)}, then {_reward_text(first.there.reward)}); it depends on the "
            "process: its hash seed, chance at import, or what was scored there before",
            "Sort what comes from a set before using its order; replace hash() by hashlib, and draw nothing at import.",
            rows=tuple(
                case_row(ScoredProbe(a.shot.probe, a.there), f"{_reward_text(a.shot.reward)} as before", trial)
                for a in shots[:3]
            ),
        )


def differs_outside(trial: Trial) -> Iterator[Finding]:
    """A process that holds nothing of this server must give the same reward: code that recognises the server can pay
    honestly only here.
    """
    seen = trial.witnessed
    if seen is None or not seen.differences:
        return
    first = seen.differences[0]
    if first.other_task:
        what = f"task {first.shot.probe.row} is another one there"
    else:
        parts = f" in {quote(', '.join(first.components), 100)}" if first.components else ""
        what = f"{_reward_text(first.shot.reward)} here, {_reward_text(first.there)} there{parts}"
    clock = "; the clock makes the difference" if first.by_clock else ""
    yield Finding(
        "reward-differs-outside",
        "blocker",
        f"{count(len(seen.differences), 'completion')} of {seen.cases} earned another reward in a plain process with "
        f"another path, clock, host name and variables ({what}{clock})",
        "Let the reward depend on the task and the completion only; remove what looks at the process, the clock, the "
        "host, variables or files.",
        rows=tuple(
            case_row(d.shot, f"{_reward_text(d.shot.reward)} as here", trial, reward=d.there)
            for d in seen.differences[:3]
        ),
    )


def not_witnessed(trial: Trial) -> Iterator[Finding]:
    """Scores that no witness confirmed prove nothing where the witness failed; skipped samples are named."""
    seen = trial.witnessed
    if seen is not None and seen.trouble:
        yield Finding(
            "reward-witness-failed",
            "blocker",
            f"the scores could not be compared with those of a plain process: {seen.trouble}",
            "Call test_reward again; if it repeats, see whether package and reward work from another folder.",
        )
    elif seen is not None and seen.skipped:
        yield Finding(
            "reward-not-witnessed",
            "info",
            f"no second process confirmed the scores, because {seen.skipped}",
            "Nothing is needed; the scores are those of the process that runs the environment.",
        )


def at_once(trial: Trial) -> Iterator[Finding]:
    """Concurrent scoring must give the same rewards: training scores many rollouts in one event loop, which mixes up
    shared state between two awaits.
    """
    seen = trial.side_effects
    if seen is None or any(differs_on_repeat(r) for r in trial.repeats):
        return
    fix = "Keep what one scoring needs in local variables: nothing of it in the module, the class or the task."
    if seen.broken:
        yield Finding(
            "reward-concurrency",
            "blocker",
            f"{count(len(seen.shots), 'completion')} that were scored one by one could not be scored in one event "
            f"loop: {quote(seen.broken, 200)}",
            fix,
        )
        return
    mixed = [
        (shot, manner.together[0])
        for shot, manner in seen.pairs
        if manner.together is not None
        and same_reward(manner.alone, shot.reward)
        and not same_reward(manner.together[0], manner.alone)
    ]
    if mixed:
        shot, earned = mixed[0]
        among = sum(m.together is not None for m in seen.effects)
        yield Finding(
            "reward-concurrency",
            "blocker",
            f"{count(len(mixed), 'completion')} earned another reward when {among} were scored at once "
            f"({_reward_text(shot.reward)} alone, {_reward_text(earned)} among others)",
            fix,
            rows=tuple(case_row(shot, "the same among others", trial, reward=earned) for shot, earned in mixed[:3]),
        )


def blocks_loop(trial: Trial) -> Iterator[Finding]:
    """A reward should not block the event loop, because all other rollouts of the worker wait meanwhile."""
    if trial.side_effects is None:
        return
    shots = [(s, m.blocked_ms) for s, m in trial.side_effects.pairs if m.blocked_ms > BLOCKS_MS]
    if shots:
        shot, longest = max(shots, key=lambda pair: pair[1])
        yield Finding(
            "reward-blocks-loop",
            "warning",
            f"scoring held up the event loop for {longest:.0f} ms ({shot.probe.label}); every other rollout waits then",
            "Await what waits, and run slow computing in another thread or process (asyncio.to_thread).",
            rows=(case_row(shot, f"no more than {BLOCKS_MS:g} ms without an await", trial),),
        )


def mutates(trial: Trial) -> Iterator[Finding]:
    """Scoring should not change its inputs, because the next scoring and the trainer see the changes."""
    if trial.side_effects is None:
        return
    shots = [(s, m.mutated) for s, m in trial.side_effects.pairs if m.mutated]
    if shots:
        names = sorted({name for _, mutated in shots for name in mutated})
        yield Finding(
            "reward-mutates",
            "warning",
            f"scoring changed {quote(', '.join(names[:4]), 200)} for {count(len(shots), 'completion')}",
            "Work on a copy of messages and task data.",
            rows=tuple(case_row(s, "inputs as they were", trial) for s, _ in shots[:2]),
        )


def component_range(trial: Trial) -> Iterator[Finding]:
    """Components should stay within [0, 1]: advantages are not divided by their spread, so larger values dominate."""
    seen: dict[str, list[tuple[float, ScoredProbe]]] = {}
    for shot in trial.everything:
        for name, part in shot.scored.components.items():
            if part.score is not None and part.weight:
                seen.setdefault(name, []).append((part.score, shot))
    for name, scores in seen.items():
        low, high = min(scores, key=_score), max(scores, key=_score)
        if low[0] >= -EPSILON and high[0] <= 1 + EPSILON:
            continue
        worst = max(low, high, key=lambda pair: abs(pair[0]))
        severity: Severity = "warning" if abs(worst[0]) > _BOUND + EPSILON else "info"
        yield Finding(
            "reward-range",
            severity,
            f"{quote(name, 80)} returned {low[0]:g} to {high[0]:g}",
            "Return 0 to 1 and set its share by the weight; bound every bonus and penalty.",
            rows=(case_row(worst[1], "a part within 0 to 1", trial),),
        )


def _score(pair: tuple[float, ScoredProbe]) -> float:
    return pair[0]


def small_maximum(trial: Trial) -> Iterator[Finding]:
    """Right answers should earn most of the declared weights: small rewards give small advantages, which are not scaled
    up (prime-rl, algo/grpo).
    """
    if trial.style is None or trial.max_reward <= 0 or trial.max_reward >= _ATTAINABLE * trial.declared - EPSILON:
        return
    best = max((s for s in trial.golds if s.reward is not None), key=lambda s: s.reward or 0, default=None)
    yield Finding(
        "reward-range",
        "warning",
        f"right answers earn at most {trial.max_reward:g} of the {trial.declared:g} that the weights declare",
        "Let a right answer earn every positive part, or lower the weights of the others.",
        rows=(case_row(best, f"{trial.declared:g}", trial),) if best is not None else (),
    )


def _reward_text(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


SIDE_EFFECT_RULES: tuple[RewardRule, ...] = (
    other_process,
    differs_outside,
    not_witnessed,
    at_once,
    blocks_loop,
    mutates,
    component_range,
    small_maximum,
)


_BROKE = frozenset({ProblemCode.EXITED, ProblemCode.FLOOD, ProblemCode.MEMORY, ProblemCode.NONSENSE})
_RIGHT = frozenset({"gold", "verbose", "equivalent", "trailing"})
"""Kinds of completions with a right answer."""
_SYNC = frozenset({ProblemCode.SYNC_REWARD, ProblemCode.SYNC_METRIC})
_REPORTED_ELSEWHERE = frozenset(
    {
        *_SYNC,
        *UNKNOWN_REWARD,
        ProblemCode.TIMEOUT,
        ProblemCode.NOT_RUN,
        ProblemCode.NO_SUCH_ROW,
        ProblemCode.NOT_A_FLOAT,
    }
)
"""Problems that another rule reports."""


def synchronous_reward(trial: Trial) -> Iterator[Finding]:
    """Rewards of v1 must be async: verifiers 0.4 awaits every reward, and one plain `def` loses the task's scores."""
    shots = trial.with_problem(*_SYNC)
    if shots:
        yield Finding(
            "reward-sync",
            "blocker",
            f"a reward or metric is a plain function: {_error_text(shots[0])}",
            "Write `async def` for every @vf.reward and @vf.metric.",
        )


def raises(trial: Trial) -> Iterator[Finding]:
    """A reward must not raise on what a model may write.

    A blocker in v1, which drops the rollout, and wherever right answers or all completions raise. A warning where the
    rubric of v0 turns the exception into a reward of 0: completions that hold no right answer then earn what they
    should, and the cost is a log full of errors.
    """
    shots = [
        s
        for s in trial.everything
        if (s.scored.errors or s.scored.has(*_BROKE)) and not s.scored.has(*_REPORTED_ELSEWHERE)
    ]
    if shots:
        kinds = sorted({s.probe.label for s in shots})
        harmless = all(s.scored.has(ProblemCode.SWALLOWED) and s.probe.kind not in _RIGHT for s in shots)
        yield Finding(
            "reward-raises",
            "warning" if harmless else "blocker",
            f"scoring failed for {count(len(shots), 'completion')} ({', '.join(kinds[:4])}"
            f"{', …' if len(kinds) > 4 else ''}): {_error_text(shots[0])}"
            + ("; the rubric paid 0, as for a wrong answer" if harmless else ""),
            "Return 0.0 for whatever a model may write; raise only where the task itself is broken.",
            where=shots[0].scored.errors[0].where or None if shots[0].scored.errors else None,
            rows=tuple(case_row(s, "a number", trial) for s in shots[:3]),
        )


def confined(trial: Trial) -> Iterator[Finding]:
    """What scoring needs must be within reach: a completion whose scoring was refused something has no reward."""
    shots = trial.with_problem(ProblemCode.CONFINED)
    if shots:
        what = sorted({detail for s in shots for detail in s.scored.details(ProblemCode.CONFINED)})
        yield Finding(
            "confined",
            "blocker",
            f"scoring {count(len(shots), 'completion')} was refused {', '.join(quote(w, 120) for w in what[:3])}",
            "Read from the package's own folder or a data set, write to the folder that Python's tempfile names, and "
            "use no network; what has to reach more cannot be tested here.",
            where=shots[0].scored.errors[0].where or None if shots[0].scored.errors else None,
            rows=(case_row(shots[0], "a number", trial),),
        )


def _error_text(shot: ScoredProbe) -> str:
    if not shot.scored.errors:
        return ", ".join(map(str, shot.scored.problems))
    error = shot.scored.errors[0]
    if error.type in ("SystemExit", "KeyboardInterrupt"):
        said = quote(f"{error.type}: {error.message}", 120)
        return f"{said}; it ends the process that scores all rollouts, as an except for Exception does not catch it"
    return quote(f"{error.type}: {error.message}", 200)


def slow(trial: Trial) -> Iterator[Finding]:
    """A reward must be fast: a reward that hangs stops training, and a slow one costs GPU hours.

    What is slow once may be set-up (an import, a model, a first container) or a busy machine. The scorer times a
    hanging completion again with more time before this rule blocks, and a slow completion again before it warns.
    """
    hung = [s for s in trial.with_problem(ProblemCode.TIMEOUT) if s.probe.family is not Family.NEVER_ENDS]
    if hung:
        yield Finding(
            "reward-slow",
            "blocker",
            f"{count(len(hung), 'completion')} got no reward within 5 seconds, and none with more time "
            f"({hung[0].probe.label})",
            "Remove the loop, the wait or the backtracking regular expression; give outside calls a time limit.",
            rows=tuple(case_row(s, "a reward within 5 seconds", trial) for s in hung[:3]),
        )
        return
    shots = [s for s in trial.everything if s.scored.ms > SLOW_MS and not s.scored.has(*_BROKE)]
    asked = {id(s) for s in trial.judged}
    # A judge takes seconds.
    shots = [s for s in shots if s.probe.family is not Family.NEVER_ENDS and id(s) not in asked]
    taken = sum(s.scored.ms for s in shots if s.scored.ms > VERY_SLOW_MS) / 1000
    if shots and trial.gave_up and taken > 0:
        yield Finding(
            "reward-slow",
            "blocker",
            f"scoring {count(len(shots), 'completion')} took {taken:.0f} seconds, so the rest was not tried "
            f"({count(len(trial.with_problem(ProblemCode.NOT_RUN)), 'completion')})",
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
    """A reward must return a number: any other value becomes an error (v1) or a silent 0 (v0)."""
    shots = trial.with_problem(ProblemCode.NOT_A_FLOAT)
    if shots:
        kinds = sorted({kind for s in shots for kind in s.scored.details(ProblemCode.NOT_A_FLOAT)})
        yield Finding(
            "reward-type",
            "blocker",
            f"a reward returned {quote(', '.join(kinds), 80)}, no number, for {count(len(shots), 'completion')}",
            "Return a float on every path, also where no answer is found.",
            rows=tuple(case_row(s, "a number", trial) for s in shots[:3]),
        )


def nonfinite(trial: Trial) -> Iterator[Finding]:
    """A reward must be finite: one NaN makes the mean of its whole group NaN."""
    shots = trial.with_problem(ProblemCode.NONFINITE)
    if shots:
        yield Finding(
            "reward-nonfinite",
            "blocker",
            f"{count(len(shots), 'completion')} earned NaN or infinity ({shots[0].probe.label})",
            "Parse numbers so that nan, inf and overflow count as no answer; guard divisions and logarithms.",
            rows=tuple(case_row(s, "a finite number", trial) for s in shots[:3]),
        )


def nondeterministic(trial: Trial) -> Iterator[Finding]:
    """Equal completions must earn equal rewards in one process, in any order."""
    differing = [r for r in trial.repeats if differs_on_repeat(r) and not by_judge(r)]
    if not differing:
        return
    # Shared state is not undone, so later passes agree with each other and not with the first.
    by_order = all(
        same_reward(r.first.reward, r.again.reward) or same_reward(r.again.reward, r.reverse.reward) for r in differing
    )
    if by_order:
        yield _unsteady(
            trial,
            differing,
            "reward-order-dependent",
            "what was scored before",
            "Keep nothing between calls: no module-level or task-level lists, caches or counters in the reward.",
        )
    else:
        yield _unsteady(
            trial,
            differing,
            "reward-nondeterministic",
            "chance or the clock",
            "Take random numbers, time and unordered sets out of the reward; pin what a judge model may vary.",
        )


def _unsteady(trial: Trial, differing: Sequence[RepeatedScore], code: Code, on: str, fix: str) -> Finding:
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
        rows=tuple(
            case_row(ScoredProbe(r.probe, r.again), f"{_reward_text(r.first.reward)} as before", trial)
            for r in differing[:3]
        ),
    )


def changing_tasks(trial: Trial) -> Iterator[Finding]:
    """Tasks must be the same at every load; otherwise an evaluation can neither be compared nor resumed."""
    codes = (ProblemCode.TASK_CHANGED, ProblemCode.NO_SUCH_ROW)
    shots = trial.with_problem(*codes) or [a.shot for a in trial.other_process if a.there.has(*codes)]
    if shots:
        yield Finding(
            "tasks-change",
            "blocker",
            f"task {shots[0].probe.row} was another one when the environment was loaded again",
            "Make loading deterministic: seed what is random, sort what is unordered, pin the dataset's revision.",
        )


def unscored(trial: Trial) -> Iterator[Finding]:
    """Reports completions that were scored under other conditions than in training."""
    grouped = trial.with_problem(ProblemCode.GROUP_REWARD)
    container = trial.with_problem(ProblemCode.NEEDS_CONTAINER)
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
    """Every component with a positive weight should be earned by some case; else nothing shows that it can be earned.

    Where such a component carries more than half of the weight, the verdict is open. Otherwise a warning.
    """
    golds = [s for s in (*trial.golds, *trial.of(Family.GOLD, Family.AFTER_REASONING)) if s.reward is not None]
    if len(golds) < 2 or trial.max_reward <= 0:
        return
    best = max(golds, key=lambda s: s.reward or 0)
    total = sum(c.weight for c in component_coverage(trial) if c.weight > 0)
    for part in component_coverage(trial):
        if part.weight <= 0 or part.earned or not part.scored:
            continue
        decides = part.weight > _DECIDING_WEIGHT * total + EPSILON
        yield Finding(
            "reward-component-unearned",
            "blocker" if decides else "warning",
            f"no completion earned anything from {quote(part.name, 80)} (weight {part.weight:g} of {total:g}): "
            f"{paid_text(best, trial)}",
            'Give a case that earns this part ("cases"); if nothing can earn it, remove it.'
            if decides
            else "Check what this part looks for; if nothing can earn it, remove it.",
        )


@dataclass(frozen=True, slots=True)
class ComponentCoverage:
    """How often a component was scored and how often it was earned."""

    name: str
    weight: float
    scored: int
    earned: int


def component_coverage(trial: Trial) -> list[ComponentCoverage]:
    """Every component that is no metric, with the number of completions that it scored and of those that earned it.

    Completions of whole rollouts count, too.
    """
    parts = [s.scored.components for s in trial.everything]
    rollouts = [*trial.rollouts, *trial.solved.played, *(p for _, p in trial.solved.changed)]
    parts += [p.rolled.components for p in rollouts if p.scored]
    found = []
    for info in trial.rewards:
        if info.kind == "metric":
            continue
        scores = [c[info.name].score for c in parts if info.name in c]
        known = [s for s in scores if s is not None]
        found.append(ComponentCoverage(info.name, info.weight, len(known), sum(s > EPSILON for s in known)))
    return found


SCORING_RULES: tuple[RewardRule, ...] = (
    synchronous_reward,
    raises,
    confined,
    slow,
    wrong_type,
    nonfinite,
    nondeterministic,
    changing_tasks,
    unscored,
    unreached,
    *SIDE_EFFECT_RULES,
)
