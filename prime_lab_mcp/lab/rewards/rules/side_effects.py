"""Rules about side effects of scoring, and about rewards that depend on more than their input.

A reward must return the same number alone and concurrently, and in every process. It must not change its inputs or
block the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial, differs_on_repeat
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, case_row, reward_text
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.worker.faults import ProblemCode

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
"""Problems because of which the reward of another process cannot be compared."""


def other_process(trial: Trial) -> Iterator[Finding]:
    """Another process must give the same reward.

    Training scores in many processes, so differences between processes are noise within a group.
    """
    scored_probes = [
        a
        for a in trial.other_process
        if not a.there.has(*_NOT_COMPARABLE) and not same_reward(a.scored_probe.reward, a.there.reward)
    ]
    if scored_probes:
        first = scored_probes[0]
        yield Finding(
            "reward-nondeterministic",
            "blocker",
            f"{count(len(scored_probes), 'completion')} of {len(trial.other_process)} earned another reward in a "
            f"second process ({reward_text(first.scored_probe.reward)}, then {reward_text(first.there.reward)}); it "
            "depends on the process: its hash seed, chance at import, or what was scored there before",
            "Sort what comes from a set before using its order; replace hash() by hashlib, and draw nothing at import.",
            rows=tuple(
                case_row(
                    ScoredProbe(a.scored_probe.probe, a.there), f"{reward_text(a.scored_probe.reward)} as before", trial
                )
                for a in scored_probes[:3]
            ),
        )


def differs_outside(trial: Trial) -> Iterator[Finding]:
    """A witness, a process without any module of this server, must give the same reward.

    Otherwise the reward may recognise this server and score honestly only when it is tested.
    """
    witnessed = trial.witnessed
    if witnessed is None or not witnessed.differences:
        return
    first = witnessed.differences[0]
    if first.other_task:
        what = f"task {first.scored_probe.probe.row} is another one there"
    else:
        parts = f" in {quote(', '.join(first.components), 100)}" if first.components else ""
        what = f"{reward_text(first.scored_probe.reward)} here, {reward_text(first.there)} there{parts}"
    clock = "; the clock makes the difference" if first.by_clock else ""
    yield Finding(
        "reward-differs-outside",
        "blocker",
        f"{count(len(witnessed.differences), 'completion')} of {witnessed.cases} earned another reward in a plain "
        f"process with another path, clock, host name and variables, in which load() of a v1 taskset never ran, as in "
        f"training ({what}{clock})",
        "Let the reward depend on the data of the task and the completion only; remove what looks at the process, the "
        "clock, the host, variables, files or at what load() left.",
        rows=tuple(
            case_row(d.scored_probe, f"{reward_text(d.scored_probe.reward)} as here", trial, reward=d.there)
            for d in witnessed.differences[:3]
        ),
    )


def not_witnessed(trial: Trial) -> Iterator[Finding]:
    """A witness must be able to score the sample. A blocker if the witness failed, information if none was used."""
    witnessed = trial.witnessed
    if witnessed is not None and witnessed.trouble:
        yield Finding(
            "reward-witness-failed",
            "blocker",
            f"the scores could not be compared with those of a plain process: {witnessed.trouble}",
            Fix(
                "Call ",
                NamedCall("test_reward"),
                " again; if it repeats, see whether package and reward work from another folder.",
            ),
        )
    elif witnessed is not None and witnessed.skipped:
        yield Finding(
            "reward-not-witnessed",
            "info",
            f"no second process confirmed the scores, because {witnessed.skipped}",
            "Nothing is needed; the scores are those of the process that runs the environment.",
        )


def at_once(trial: Trial) -> Iterator[Finding]:
    """Concurrent scoring must give the same rewards as scoring alone.

    Training scores many rollouts in one event loop, where shared state may change between two awaits.
    """
    effects = trial.side_effects
    if effects is None or any(differs_on_repeat(r) for r in trial.repeats):
        return
    fix = "Keep what one scoring needs in local variables: nothing of it in the module, the class or the task."
    if effects.broken:
        yield Finding(
            "reward-concurrency",
            "blocker",
            f"{count(len(effects.scored_probes), 'completion')} that were scored one by one could not be scored in one "
            f"event loop: {quote(effects.broken, 200)}",
            fix,
        )
        return
    mixed = [
        (scored_probe, effect.concurrent[0])
        for scored_probe, effect in effects.pairs
        if effect.concurrent is not None
        and same_reward(effect.alone, scored_probe.reward)
        and not same_reward(effect.concurrent[0], effect.alone)
    ]
    if mixed:
        scored_probe, earned = mixed[0]
        among = sum(m.concurrent is not None for m in effects.effects)
        yield Finding(
            "reward-concurrency",
            "blocker",
            f"{count(len(mixed), 'completion')} earned another reward when {among} were scored at once "
            f"({reward_text(scored_probe.reward)} alone, {reward_text(earned)} among others)",
            fix,
            rows=tuple(
                case_row(scored_probe, "the same among others", trial, reward=earned)
                for scored_probe, earned in mixed[:3]
            ),
        )


def blocks_loop(trial: Trial) -> Iterator[Finding]:
    """A reward should not block the event loop, because all other rollouts of the worker have to wait."""
    if trial.side_effects is None:
        return
    scored_probes = [(s, m.blocked_ms) for s, m in trial.side_effects.pairs if m.blocked_ms > BLOCKS_MS]
    if scored_probes:
        scored_probe, longest = max(scored_probes, key=lambda pair: pair[1])
        yield Finding(
            "reward-blocks-loop",
            "warning",
            f"scoring held up the event loop for {longest:.0f} ms ({scored_probe.probe.label}); every other rollout "
            "waits then",
            "Await what waits, and run slow computing in another thread or process (asyncio.to_thread).",
            rows=(case_row(scored_probe, f"no more than {BLOCKS_MS:g} ms without an await", trial),),
        )


def mutates(trial: Trial) -> Iterator[Finding]:
    """Scoring should not change its inputs, because the next scoring and the trainer see the changes."""
    if trial.side_effects is None:
        return
    scored_probes = [(s, m.mutated) for s, m in trial.side_effects.pairs if m.mutated]
    if scored_probes:
        names = sorted({name for _, mutated in scored_probes for name in mutated})
        yield Finding(
            "reward-mutates",
            "warning",
            f"scoring changed {quote(', '.join(names[:4]), 200)} for {count(len(scored_probes), 'completion')}",
            "Work on a copy of messages and task data.",
            rows=tuple(case_row(s, "inputs as they were", trial) for s, _ in scored_probes[:2]),
        )


SIDE_EFFECT_RULES: tuple[RewardRule, ...] = (
    other_process,
    differs_outside,
    not_witnessed,
    at_once,
    blocks_loop,
    mutates,
)
