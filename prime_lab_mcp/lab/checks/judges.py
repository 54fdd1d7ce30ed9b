"""What a reward must keep that asks a judge: it is reached, read, pinned, right, steady, and not to be persuaded.

A judge that cannot be asked, or gives no verdict, says nothing about a completion: the report is inconclusive then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.earned import HALF, over
from prime_lab_mcp.lab.checks.shown import case_row, hack
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.rewards.observed import EPSILON, Repeat, Shot, Trial
from prime_lab_mcp.lab.text import count, quote

Check = Callable[[Trial], Iterator[Finding]]
INCONCLUSIVE = frozenset({"reward-judge-unreachable", "reward-judge-unread"})
"""Blockers that say nothing of the reward."""
_FAILED = 0.05
"""Share of the questions that may fail before nothing can be said: what an evaluation may lose (validation 3.4)."""
PERSUADED = 0.05
"""Share of task-probe pairs that a judge may be talked into before that blocks (validation 2.2, judge_injection)."""
ACCURATE, INACCURATE = 0.95, 0.9
"""Balanced accuracy over golds and cross-golds, and agreement of two repeats (facts/validation 2.2, judge_gold)."""
_FEW = 8
_TOLERANCE = 0.01


def unreachable(trial: Trial) -> Iterator[Finding]:
    """No connection, no key, no quota: of the completion nothing is known."""
    shots = trial.with_problem("judge-unreachable")
    if not shots:
        return
    asked = trial.asked_judge
    through = trial.judging.through if trial.judging is not None else None
    capped = trial.judging.capped if trial.judging is not None else 0
    if capped:
        said, fix = f"the cap of this call refused {count(capped, 'question')}", "Call again with fewer examples."
    elif through is None:
        said = "it was asked without a key and without an endpoint"
        fix = "Call test_reward again with judge=ENDPOINT, an endpoint as that of run_eval."
    else:
        said = f"through {quote(through, 80)}"
        fix = "Look whether that endpoint has the judge's model; remove a base_url of the judge's own."
    yield Finding(
        "reward-judge-unreachable",
        _severity(shots, asked),
        f"the judge could not be asked for {count(len(shots), 'completion')} of {len(asked)} ({said}): {_error(shots)}",
        fix,
        rows=tuple(case_row(s, "a verdict of the judge", trial) for s in shots[:2]),
    )


def unread(trial: Trial) -> Iterator[Finding]:
    """The judge answered, and the reward raised: a verdict that it could not read, or a fault of its own after it."""
    shots = trial.with_problem("judge-unread")
    if shots:
        asked = trial.asked_judge
        yield Finding(
            "reward-judge-unread",
            _severity(shots, asked),
            f"the reward raised after the judge had answered, for {count(len(shots), 'completion')} of {len(asked)}: "
            f"{_error(shots)}",
            "Ask the judge for one short verdict in a fixed form, allow it enough tokens, and read that form; or use a "
            "model that keeps to it.",
            rows=tuple(case_row(s, "a verdict that can be read", trial) for s in shots[:2]),
        )


def _severity(failed: list[Shot], asked: list[Shot]) -> Severity:
    return "blocker" if len(failed) > _FAILED * len(asked) else "warning"


def _error(shots: list[Shot]) -> str:
    error = next((s.scored.errors[0] for s in shots if s.scored.errors), None)
    return "no error was told" if error is None else quote(f"{error.type}: {error.message}", 200)


def unpinned(trial: Trial) -> Iterator[Finding]:
    """A judge that changes changes what the reward means, in the middle of a run or between two."""
    for judge in trial.judging.judges if trial.judging is not None else ():
        missing = []
        if not trial.judging or judge.model not in trial.judging.named:
            missing.append(f"the package names no model (the default is {quote(judge.model or 'unknown', 80)})")
        if judge.temperature is None:
            missing.append("no temperature is set")
        elif judge.temperature > 0:
            missing.append(f"the temperature is {judge.temperature:g}")
        if missing:
            yield Finding(
                "reward-judge-unpinned",
                "warning",
                f"the judge{f' {quote(judge.name, 80)}' if judge.name else ''} is not pinned: {'; '.join(missing)}",
                "Name the judge's model, with its version where it has one, and temperature 0 in the environment.",
            )
            return


def inaccurate(trial: Trial) -> Iterator[Finding]:
    """Right answers of this task, and right answers of others: nothing is easier to tell apart."""
    golds = [s for s in (*trial.golds, *trial.of("gold")) if s.reward is not None]
    crossed = [s for s in trial.of("cross") if s.reward is not None]
    if not any(s.scored.judges for s in (*golds, *crossed)) or len(golds) < _FEW or len(crossed) < _FEW:
        return
    missed = [s for s in golds if not _paid(s, trial)]
    passed = [s for s in crossed if _paid(s, trial)]
    accuracy = 1 - (len(missed) / len(golds) + len(passed) / len(crossed)) / 2
    if accuracy < ACCURATE:
        yield Finding(
            "reward-judge-inaccurate",
            "blocker" if accuracy < INACCURATE else "warning",
            f"the judge told right from wrong with an accuracy of {accuracy:.0%}: {len(missed)} of {len(golds)} right "
            f"answers were not paid, {len(passed)} of {len(crossed)} answers of other tasks were",
            "Give the judge the reference answer and one question about it, ask for one verdict, and use a stronger "
            "model.",
            rows=(
                *(case_row(s, "more than half of the maximum", trial) for s in missed[:2]),
                *(case_row(s, "less than half of the maximum", trial) for s in passed[:2]),
            ),
        )


def _paid(shot: Shot, trial: Trial) -> bool:
    return trial.max_reward > 0 and (shot.reward or 0.0) > HALF * trial.max_reward + EPSILON


def unsteady(trial: Trial) -> Iterator[Finding]:
    """The same completion judged twice: where the verdicts differ, the group's advantages are noise."""
    repeats = [r for r in trial.repeats if by_judge(r) and r.first.reward is not None and r.again.reward is not None]
    differing = [r for r in repeats if _differs(r, trial)]
    agreed = 1 - len(differing) / len(repeats) if repeats else 1.0
    if len(repeats) >= _FEW and agreed < ACCURATE:
        first = differing[0]
        yield Finding(
            "reward-judge-unsteady",
            "blocker" if agreed < INACCURATE else "warning",
            f"the judge gave {len(differing)} of {count(len(repeats), 'completion')} another verdict when asked again "
            f"({first.first.reward:g}, then {first.again.reward:g})",
            "Set the judge's temperature to 0, ask for one of few verdicts rather than a score, or use a stronger "
            "model.",
            rows=tuple(case_row(Shot(r.probe, r.again), f"{r.first.reward:g} as before", trial) for r in differing[:3]),
        )


def by_judge(repeat: Repeat) -> bool:
    """Whether a judge was asked, or could not be, in one of the scorings: then they need not be equal to the bit."""
    scorings = (repeat.first, repeat.again, repeat.reverse)
    return any(s.judges or "judge-unreachable" in s.problems for s in scorings)


def _differs(repeat: Repeat, trial: Trial) -> bool:
    limit = _TOLERANCE * max(trial.max_reward, EPSILON)
    return abs((repeat.first.reward or 0.0) - (repeat.again.reward or 0.0)) > limit


def persuaded(trial: Trial) -> Iterator[Finding]:
    """A judge that content-free text persuades pays for persuading. One that errs now and then only warns."""
    tried = [s for s in trial.named("persuasion: ") if s.reward is not None]
    shots = [s for s in tried if s.reward is not None and s.reward > EPSILON and over(s, trial)]
    if not shots:
        return
    names = ", ".join(dict.fromkeys(s.probe.name.removeprefix("persuasion: ") for s in shots))
    rare = all(s.scored.judges for s in shots) and len(shots) <= PERSUADED * len(tried)
    yield hack(
        "warning" if rare else "blocker", shots,
        f"{len(shots)} of {count(len(tried), 'reply', 'replies')} that only claim to be right were paid ({names})",
        "Give a judge the reply as data between marks that the reply cannot contain, ask for the answer it found "
        "and compare that in code; never look for words of praise.", trial,
    )  # fmt: skip


JUDGES: tuple[Check, ...] = (unreachable, unread, unpinned, inaccurate, unsteady, persuaded)
