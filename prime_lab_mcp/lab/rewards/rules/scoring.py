"""Rules about scoring itself: exceptions, time, types, finite numbers, determinism and scale.

A reward must return a finite number for every completion, in time, and the same number for the same completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import RepeatedScore, ScoredProbe, Trial, differs_on_repeat
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, case_row, paid_text, reward_text
from prime_lab_mcp.lab.rewards.rules.judges import by_judge
from prime_lab_mcp.lab.rewards.rules.side_effects import SIDE_EFFECT_RULES
from prime_lab_mcp.lab.rewards.scorer import SLOW_MS, VERY_SLOW_MS
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, same_reward
from prime_lab_mcp.lab.worker.faults import UNKNOWN_REWARD, ProblemCode

_DECIDING_WEIGHT = 0.5
"""Share of the positive weights above which a component that no completion earned is a blocker."""
_ATTAINABLE = 0.5
"""Share of the declared weights that right answers should earn."""
_BOUND = 1.0
"""Absolute score above which a component outside [0, 1] is a warning instead of information."""


def component_range(trial: Trial) -> Iterator[Finding]:
    """The scores of components should stay within [0, 1].

    prime-rl does not divide advantages by their deviation, so larger scores dominate the gradient.
    """
    by_component: dict[str, list[tuple[float, ScoredProbe]]] = {}
    for scored_probe in trial.everything:
        for name, part in scored_probe.scored.components.items():
            if part.score is not None and part.weight:
                by_component.setdefault(name, []).append((part.score, scored_probe))
    for name, scores in by_component.items():
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
    """Right answers should earn at least half of the declared weights.

    Small rewards give small advantages, which prime-rl does not scale up (algo/grpo).
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


_BROKE = frozenset({ProblemCode.EXITED, ProblemCode.FLOOD, ProblemCode.MEMORY, ProblemCode.NONSENSE})
_RIGHT = frozenset({"gold", "verbose", "equivalent", "trailing"})
"""Kinds of completions that have the right answer."""
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
    """Rewards and metrics of v1 must be async functions.

    verifiers 0.4 awaits every one of them, and a single plain `def` makes all scores of the task fail.
    """
    scored_probes = trial.with_problem(*_SYNC)
    if scored_probes:
        yield Finding(
            "reward-sync",
            "blocker",
            f"a reward or metric is a plain function: {_error_text(scored_probes[0])}",
            "Write `async def` for every @vf.reward and @vf.metric.",
        )


def raises(trial: Trial) -> Iterator[Finding]:
    """A reward must not raise an exception, whatever a model writes.

    A blocker in v1, where the rollout is lost, and if scoring right answers raises. A warning if the v0 rubric turns
    the exception into a reward of 0 and only completions without a right answer raise: their reward is right then, but
    the log fills with errors. A warning too if only NUL characters raise, as in the arguments of every program: hardly
    any model writes one.
    """
    scored_probes = [
        s
        for s in trial.everything
        if (s.scored.errors or s.scored.has(*_BROKE)) and not s.scored.has(*_REPORTED_ELSEWHERE)
    ]
    if scored_probes:
        kinds = sorted({s.probe.label for s in scored_probes})
        harmless = all(s.scored.has(ProblemCode.SWALLOWED) and s.probe.kind not in _RIGHT for s in scored_probes)
        rare = all("\0" in s.probe.completion for s in scored_probes)
        yield Finding(
            "reward-raises",
            "warning" if harmless or rare else "blocker",
            f"scoring failed for {count(len(scored_probes), 'completion')} ({', '.join(kinds[:4])}"
            f"{', …' if len(kinds) > 4 else ''}): {_error_text(scored_probes[0])}"
            + ("; the rubric paid 0, as for a wrong answer" if harmless else ""),
            "Mend that line: right answers raise there. Catching the exception would pay them 0."
            if any(s.probe.kind in _RIGHT for s in scored_probes)
            else "Return 0.0 for whatever a model may write; raise only where the task itself is broken.",
            where=scored_probes[0].scored.errors[0].where or None if scored_probes[0].scored.errors else None,
            rows=tuple(case_row(s, "a number", trial) for s in scored_probes[:3]),
        )


def confined(trial: Trial) -> Iterator[Finding]:
    """Scoring must not need anything that the sandbox refuses. A completion whose scoring was refused has no reward."""
    scored_probes = trial.with_problem(ProblemCode.CONFINED)
    if scored_probes:
        what = sorted({detail for s in scored_probes for detail in s.scored.details(ProblemCode.CONFINED)})
        yield Finding(
            "confined",
            "blocker",
            f"scoring {count(len(scored_probes), 'completion')} was refused "
            f"{', '.join(quote(w, 120) for w in what[:3])}",
            "Read from the package's own folder or a data set, write to the folder that Python's tempfile names, and "
            "use no network; what has to reach more cannot be tested here.",
            where=scored_probes[0].scored.errors[0].where or None if scored_probes[0].scored.errors else None,
            rows=(case_row(scored_probes[0], "a number", trial),),
        )


def _error_text(scored_probe: ScoredProbe) -> str:
    """Return the first error of a scoring as text, or its problems if it has no error."""
    if not scored_probe.scored.errors:
        return ", ".join(map(str, scored_probe.scored.problems))
    error = scored_probe.scored.errors[0]
    if error.type in ("SystemExit", "KeyboardInterrupt"):
        text = quote(f"{error.type}: {error.message}", 120)
        return f"{text}; it ends the process that scores all rollouts, as an except for Exception does not catch it"
    return quote(f"{error.type}: {error.message}", 200)


_LONG_ROLLOUT_MS = 5000.0
"""Duration of a whole rollout with a scripted model above which the set-up should be examined."""


_MANY = 100
"""Number of scored completions among which a single one between one and two seconds says more of a busy machine than of
the reward (our judgement)."""


def slow(trial: Trial) -> Iterator[Finding]:
    """A reward must be fast: a reward that hangs stops training, and a slow one wastes GPU time.

    A single slow scoring may be due to set-up (an import, a model, a first container) or to a busy machine. The scorer
    therefore scores hanging completions again with more time, and slow completions a second time, before this rule
    judges them. The time of a whole rollout says little about scoring, because tool servers start within it.
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
    scored_probes = [s for s in trial.everything if s.scored.ms > SLOW_MS and not s.scored.has(*_BROKE)]
    asked = {id(s) for s in trial.judged}
    # A judge takes seconds, so completions that asked a judge do not count.
    scored_probes = [s for s in scored_probes if s.probe.family is not Family.NEVER_ENDS and id(s) not in asked]
    played = [s for s in scored_probes if s.probe.id.startswith("rollout/")]
    scored_probes = [s for s in scored_probes if s not in played]
    taken = sum(s.scored.ms for s in scored_probes if s.scored.ms > VERY_SLOW_MS) / 1000
    if scored_probes and trial.gave_up and taken > 0:
        yield Finding(
            "reward-slow",
            "blocker",
            f"scoring {count(len(scored_probes), 'completion')} took {taken:.0f} seconds, so the rest was not tried "
            f"({count(len(trial.with_problem(ProblemCode.NOT_RUN)), 'completion')})",
            "Make it faster: load what it needs once, and avoid waits and nested quantifiers.",
            rows=tuple(case_row(s, "a reward within a second", trial) for s in scored_probes[:3]),
        )
        return
    worst = max(scored_probes, key=lambda s: s.scored.ms, default=None)
    alone = len(scored_probes) == 1 and sum(1 for _ in trial.everything) >= _MANY
    if worst is not None and not (alone and worst.scored.ms <= VERY_SLOW_MS):
        yield Finding(
            "reward-slow",
            "warning",
            f"scoring took more than a second for {count(len(scored_probes), 'completion')} "
            f"(up to {worst.scored.ms / 1000:.1f} s)",
            "Make it faster: load what it needs once, and avoid nested quantifiers in regular expressions.",
            rows=(case_row(worst, "a reward within a second", trial),),
        )
    longest = max(played, key=lambda s: s.scored.ms, default=None)
    if longest is not None and longest.scored.ms > _LONG_ROLLOUT_MS:
        yield Finding(
            "reward-slow",
            "warning",
            f"whole rollouts with a scripted model took up to {longest.scored.ms / 1000:.1f} s: set-up, tool servers "
            "and turns, not only scoring",
            "Start a tool server once for all rollouts where its state allows it (a shared toolset), and do in setup "
            "only what each task needs. The reward itself may be fast.",
            rows=(case_row(longest, "a rollout within a few seconds", trial),),
        )


def wrong_type(trial: Trial) -> Iterator[Finding]:
    """A reward must return a number: any other value becomes an error (v1) or a silent 0 (v0)."""
    scored_probes = trial.with_problem(ProblemCode.NOT_A_FLOAT)
    if scored_probes:
        kinds = sorted({kind for s in scored_probes for kind in s.scored.details(ProblemCode.NOT_A_FLOAT)})
        yield Finding(
            "reward-type",
            "blocker",
            f"a reward returned {quote(', '.join(kinds), 80)}, no number, for "
            f"{count(len(scored_probes), 'completion')}",
            "Return a float on every path, also where no answer is found.",
            rows=tuple(case_row(s, "a number", trial) for s in scored_probes[:3]),
        )


def nonfinite(trial: Trial) -> Iterator[Finding]:
    """A reward must be finite, because one NaN makes the mean of its whole group NaN."""
    scored_probes = trial.with_problem(ProblemCode.NONFINITE)
    if scored_probes:
        yield Finding(
            "reward-nonfinite",
            "blocker",
            f"{count(len(scored_probes), 'completion')} earned NaN or infinity ({scored_probes[0].probe.label})",
            "Parse numbers so that nan, inf and overflow count as no answer; guard divisions and logarithms.",
            rows=tuple(case_row(s, "a finite number", trial) for s in scored_probes[:3]),
        )


def nondeterministic(trial: Trial) -> Iterator[Finding]:
    """Equal completions must earn equal rewards in one process, in any order."""
    differing = [r for r in trial.repeats if differs_on_repeat(r) and not by_judge(r)]
    if not differing:
        return
    # State that scoring leaves behind stays, so later passes agree with each other but not with the first one. What is
    # scored before a completion is the same in the first two passes.
    as_before = [same_reward(r.first.reward, r.again.reward) for r in differing]
    stays = [same_reward(r.again.reward, r.reverse.reward) for r in differing]
    if all(one or other for one, other in zip(as_before, stays, strict=True)):
        # Of three draws between two values two always agree, now the first two and now the last two.
        alike = len(differing) > 2 and (all(as_before) or all(stays))
        yield _unsteady(
            trial,
            differing,
            "reward-order-dependent",
            "what was scored before" if alike else "what was scored before, or on chance",
            "Keep nothing between calls: no module-level or task-level lists, caches or counters in the reward"
            f"{'' if alike else ', and no random numbers'}.",
        )
    else:
        yield _unsteady(
            trial,
            differing,
            "reward-nondeterministic",
            "chance or the clock",
            "Take random numbers, time and unordered sets out of the reward; pin what a judge model may vary.",
        )


def unequal_in_group(trial: Trial) -> Iterator[Finding]:
    """A group reward must pay equal completions of one group equally.

    A blocker: a rank that ties break by place is noise in the advantages, and there are more ties the more alike the
    completions of a group become in training.
    """
    unequal = trial.with_problem(ProblemCode.UNEQUAL_IN_GROUP)
    if unequal:
        detail = next(p.detail for p in unequal[0].scored.problems if p.code is ProblemCode.UNEQUAL_IN_GROUP)
        yield Finding(
            "reward-order-dependent",
            "blocker",
            f"two equal completions of one group earn {detail}, so a group reward pays by the place in the group",
            "Give equal completions equal ranks: count the members that are strictly better, or share the bonus.",
            rows=tuple(case_row(s, "what an equal completion of its group earns", trial) for s in unequal[:2]),
        )


def _unsteady(trial: Trial, differing: Sequence[RepeatedScore], code: Code, on: str, fix: str) -> Finding:
    """Return the finding about completions with different rewards. `on` is what the reward depends on."""
    first = differing[0]
    rewards = ", ".join(
        "none" if s.reward is None else f"{s.reward:g}" for s in (first.first, first.again, first.reverse)
    )
    return Finding(
        code,
        "blocker",
        f"{count(len(differing), 'completion')} of {len(trial.repeats)} earned different rewards for the same text "
        f"({rewards}); the reward depends on {on}",
        fix,
        rows=tuple(
            case_row(ScoredProbe(r.probe, r.again), f"{reward_text(r.first.reward)} as before", trial)
            for r in differing[:3]
        ),
    )


def changing_tasks(trial: Trial) -> Iterator[Finding]:
    """Tasks must be the same at every load. Otherwise evaluations can neither be compared nor resumed."""
    codes = (ProblemCode.TASK_CHANGED, ProblemCode.NO_SUCH_ROW)
    scored_probes = trial.with_problem(*codes) or [a.scored_probe for a in trial.other_process if a.there.has(*codes)]
    if scored_probes:
        yield Finding(
            "tasks-change",
            "blocker",
            f"task {scored_probes[0].probe.row} was another one when the environment was loaded again",
            "Make loading deterministic: seed what is random, sort what is unordered, pin the dataset's revision.",
        )


def unscored(trial: Trial) -> Iterator[Finding]:
    """Report completions that were scored under other conditions than in training."""
    grouped = trial.with_problem(ProblemCode.GROUP_REWARD)
    container = trial.with_problem(ProblemCode.NEEDS_CONTAINER)
    for scored_probes, what in (
        (grouped, "a group reward saw one completion at a time here, in training it sees a whole group"),
        (container, "tasks that need a container were scored in a plain process"),
    ):
        if scored_probes:
            severity: Severity = "warning"
            yield Finding(
                "reward-partly-tested",
                severity,
                what,
                Fix(
                    "Call ",
                    NamedCall("run_eval").changed(num_examples=5, rollouts=4),
                    ", and look at its rewards before training.",
                ),
            )


def unreached(trial: Trial) -> Iterator[Finding]:
    """Some completion should earn every component with a positive weight. Otherwise it is unknown whether any can.

    A blocker if the component has more than half of the weight, else a warning.
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
            "That says nothing about other right replies. Give one that earns this part, as a case or by rendering "
            "with fields of the task (GOLD {info.unit}), and check whether the part raises: an exception that is "
            "caught pays 0. Only if no right reply can earn it, remove it.",
        )


@dataclass(frozen=True, slots=True)
class ComponentCoverage:
    """The numbers of completions that a component scored, and of those that earned a positive score from it."""

    name: str
    weight: float
    scored: int
    earned: int


def component_coverage(trial: Trial) -> list[ComponentCoverage]:
    """Return the coverage of every component that is not a metric. Whole rollouts count as completions."""
    parts = [s.scored.components for s in trial.everything]
    rollouts = [*trial.rollouts, *trial.solved.played, *(p for _, p in trial.solved.changed)]
    parts += [p.result.components for p in rollouts if p.scored]
    coverage = []
    for info in trial.rewards:
        if info.kind == "metric":
            continue
        scores = [c[info.name].score for c in parts if info.name in c]
        known = [s for s in scores if s is not None]
        coverage.append(ComponentCoverage(info.name, info.weight, len(known), sum(s > EPSILON for s in known)))
    return coverage


SCORING_RULES: tuple[RewardRule, ...] = (
    synchronous_reward,
    raises,
    confined,
    slow,
    wrong_type,
    nonfinite,
    nondeterministic,
    unequal_in_group,
    changing_tasks,
    unscored,
    unreached,
    *SIDE_EFFECT_RULES,
    component_range,
    small_maximum,
)
