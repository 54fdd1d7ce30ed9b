"""How a reward behaves beside what it pays: alone and among others, in two processes, towards its inputs; its range."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.shown import case_row
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Trial, differs, same
from prime_lab_mcp.lab.text import count, quote

Check = Callable[[Trial], Iterator[Finding]]
BLOCKS_MS = 100.0
"""Longest time without a turn for other tasks of the loop (facts/validation 2.2, `concurrency`)."""
_ATTAINABLE = 0.5
_BOUND = 1.0


def other_process(trial: Trial) -> Iterator[Finding]:
    """Training scores in many processes: what depends on one of them is noise between rollouts of a group."""
    shots = [
        a
        for a in trial.abroad
        if not {"task-changed", "no-such-row", "not-run", "timeout"} & set(a.there.problems)
        and not same(a.shot.reward, a.there.reward)
    ]
    if shots:
        first = shots[0]
        yield Finding(
            "reward-nondeterministic",
            "blocker",
            f"{count(len(shots), 'completion')} of {len(trial.abroad)} earned another reward in a second process "
            f"({_number(first.shot.reward)}, then {_number(first.there.reward)}); it depends on the process: "
            "its hash seed, chance at import, or what was scored there before",
            "Sort what comes from a set before using its order; replace hash() by hashlib, and draw nothing at import.",
            rows=tuple(
                case_row(Shot(a.shot.probe, a.there), f"{_number(a.shot.reward)} as before", trial) for a in shots[:3]
            ),
        )


def at_once(trial: Trial) -> Iterator[Finding]:
    """Training scores many rollouts in one event loop: what they share between two awaits is mixed up."""
    seen = trial.behaviour
    if seen is None or any(differs(r) for r in trial.repeats):
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
        and same(manner.alone, shot.reward)
        and not same(manner.together[0], manner.alone)
    ]
    if mixed:
        shot, earned = mixed[0]
        among = sum(m.together is not None for m in seen.manners)
        yield Finding(
            "reward-concurrency",
            "blocker",
            f"{count(len(mixed), 'completion')} earned another reward when {among} were scored at once "
            f"({_number(shot.reward)} alone, {_number(earned)} among others)",
            fix,
            rows=tuple(
                case_row(shot, "the same among others", trial) | {"reward": earned} for shot, earned in mixed[:3]
            ),
        )


def blocks_loop(trial: Trial) -> Iterator[Finding]:
    """While a reward holds the event loop, no other rollout of the worker goes on."""
    if trial.behaviour is None:
        return
    shots = [(s, m.blocked_ms) for s, m in trial.behaviour.pairs if m.blocked_ms > BLOCKS_MS]
    if shots:
        shot, longest = max(shots, key=lambda pair: pair[1])
        yield Finding(
            "reward-blocks-loop",
            "warning",
            f"scoring held up the event loop for {longest:.0f} ms ({shot.probe.name}); every other rollout waits then",
            "Await what waits, and run slow computing in another thread or process (asyncio.to_thread).",
            rows=(case_row(shot, f"no more than {BLOCKS_MS:g} ms without an await", trial),),
        )


def mutates(trial: Trial) -> Iterator[Finding]:
    """What scoring changes, the next scoring and the trainer see changed."""
    if trial.behaviour is None:
        return
    shots = [(s, m.mutated) for s, m in trial.behaviour.pairs if m.mutated]
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
    """Advantages are not divided by their spread: what lies far outside of [0, 1] outweighs the rest."""
    seen: dict[str, list[tuple[float, Shot]]] = {}
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


def _score(pair: tuple[float, Shot]) -> float:
    return pair[0]


def attainable(trial: Trial) -> Iterator[Finding]:
    """A reward whose best is small gives small advantages: they are not scaled up (prime-rl, algo/grpo)."""
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


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


PROPERTIES: tuple[Check, ...] = (
    other_process, at_once, blocks_loop, mutates, component_range, attainable,
)  # fmt: skip
