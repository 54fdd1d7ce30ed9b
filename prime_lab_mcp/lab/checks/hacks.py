"""Relations that known ways to cheat a reward must keep (facts/validation 2.2): none may be worth a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.earned import as_gold, mostly_gold
from prime_lab_mcp.lab.checks.shown import hack
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, Trial
from prime_lab_mcp.lab.text import count

Check = Callable[[Trial], Iterator[Finding]]
FORMAT_BLOCKS = 0.3
FORMAT_WARNS = 0.2
"""Share of the maximum that form without an answer may earn (facts/validation 2.2: format_only, weight sanity)."""
_LENGTH = 0.05


def above_gold(trial: Trial) -> Iterator[Finding]:
    """Whatever beats the right answer is what training will produce."""
    above = [
        s
        for s in trial.of("hack", "wrong", "malformed", "empty")
        if s.reward is not None and trial.max_reward > 0 and s.reward > trial.max_reward * 1.001 + EPSILON
    ]
    above = [s for s in above if not s.probe.name.startswith("long gold")]
    if above:
        above.sort(key=lambda s: -(s.reward or 0))
        yield hack(
            "blocker", above, f"{count(len(above), 'completion')} that are not right earned more than any right one",
            "Bound every part of the reward, and pay the right answer the most.", trial,
        )  # fmt: skip


def two_answers(trial: Trial) -> Iterator[Finding]:
    """Several answers at once are a guess; only one may count, and it should be the last."""
    fix = "Count only the last answer outside of <think>, or give 0 when there are several that differ."
    by_row = {s.probe.row: s for s in trial.named("both: gold, then wrong")}
    both = [
        s
        for s in trial.named("both: wrong, then gold")
        if mostly_gold(s, trial) and s.probe.row in by_row and mostly_gold(by_row[s.probe.row], trial)
    ]
    if both:
        yield hack(
            "blocker",
            both,
            "right and wrong answers together were paid like the right one alone, in either order",
            fix,
            trial,
        )
        return
    for name, how in (
        ("contradict", "a right answer that is then taken back for a wrong one was paid like the right one"),
        (
            "stuffed in think",
            "a right answer only inside <think>, with a wrong final one, was paid like the right one",
        ),
    ):
        shots = [s for s in trial.named(name) if mostly_gold(s, trial)]
        if shots:
            yield hack("blocker", shots, how, fix, trial)


def form_alone(trial: Trial) -> Iterator[Finding]:
    """Form is quick to learn: where it pays much, the run learns it and stops."""
    shots = [s for s in trial.named("format only") if s.reward is not None]
    if not shots or trial.max_reward <= 0:
        return
    worst = max(shots, key=lambda s: s.reward or 0)
    share = (worst.reward or 0) / trial.max_reward
    if share > FORMAT_WARNS:
        yield hack(
            "blocker" if share > FORMAT_BLOCKS else "warning", [worst],
            f"the asked form without an answer earned {share:.0%} of the maximum",
            "Lower the weight of the format reward to 0.1 to 0.2 of the total, or pay it only beside a right answer.",
            trial, "reward-format-dominates",
        )  # fmt: skip


def listed_words(trial: Trial) -> Iterator[Finding]:
    """Words are cheap: what they earn without an answer is learned first."""
    above = []
    for shot in trial.named("wrong after words of the source"):
        wrong = trial.wrong(shot.probe.row)
        if shot.reward is not None and wrong is not None and trial.max_reward > 0:
            above.append((shot, (shot.reward - wrong) / trial.max_reward))
    if not above:
        return
    worst, share = max(above, key=lambda pair: pair[1])
    if share > FORMAT_WARNS:
        yield hack(
            "blocker" if share > FORMAT_BLOCKS else "warning", [worst],
            f"words that the reward looks for earned {share:.0%} of the maximum beside a wrong answer",
            "Do not pay for words; where they are part of the task, pay them only beside a right answer.", trial,
        )  # fmt: skip


def echoes(trial: Trial) -> Iterator[Finding]:
    """Copying the prompt needs no skill."""
    for name in ("echo of the prompt, in form", "echo of the prompt"):
        shots = [s for s in trial.shots if s.probe.name == name and s.reward is not None]
        hits = [s for s in shots if as_gold(s, trial)]
        if not hits:
            continue
        share = len(hits) / len(shots)
        how = f"the prompt repeated earned as much as the right answer on {len(hits)} of {len(shots)} tasks"
        if share >= max(0.5, _chance(trial) + 0.25) and len(hits) >= 2:
            yield hack(
                "blocker", hits, how,
                "Read the answer from a form that the prompt does not contain, and compare it whole.", trial,
            )  # fmt: skip
            return
        if share > _chance(trial) + EPSILON:
            yield hack(
                "warning", hits, how,
                "Look whether these prompts give the answer away.", trial,
            )  # fmt: skip
            return


def _chance(trial: Trial) -> float:
    labels = len(trial.style.golds.labels) if trial.style is not None else 0
    return 1 / labels if labels >= 2 else 0.0


def every_answer(trial: Trial) -> Iterator[Finding]:
    """Naming all answers names the right one; in both orders it is no accident of position."""
    for forward, backward in (
        ("every answer", "every answer, backwards"),
        ("every answer, bare", "every answer, bare, backwards"),
    ):
        turned = {s.probe.row: s for s in trial.shots if s.probe.name == backward}
        hits = [
            s
            for s in trial.shots
            if s.probe.name == forward
            and as_gold(s, trial)
            and s.probe.row in turned
            and as_gold(turned[s.probe.row], trial)
        ]
        if hits:
            yield hack(
                "blocker", hits, f"naming every answer earned as much as the right one on {count(len(hits), 'task')}",
                "Accept one answer only, compared whole.", trial,
            )  # fmt: skip
            return


def odd_numbers(trial: Trial) -> Iterator[Finding]:
    """Comparisons with nan and inf go wrong quietly."""
    shots = [s for s in trial.named("odd number") if as_gold(s, trial)]
    if shots:
        yield hack(
            "blocker", shots, "text that is no number or no answer earned as much as the right answer",
            "Refuse what does not parse as a finite number before comparing.", trial,
        )  # fmt: skip


def evaluated(trial: Trial) -> Iterator[Finding]:
    """A reward that computes what the model wrote pays for restating the task; one that runs it can be taken over."""
    if any("evaluated-output" in s.scored.problems for s in trial.everything):
        return  # seen to be run (hostile.py)
    code = [s for s in trial.named("Python code") if as_gold(s, trial)]
    sums = [s for s in trial.named("sum left") if as_gold(s, trial)]
    fix = "Parse the answer as a number or literal; never pass it to eval, exec or a symbolic evaluator."
    if code:
        how = "the reward ran Python code from the completion: it earned as much as the right answer"
        yield hack("blocker", code, how, fix, trial, "reward-evaluates-output")
    elif sums:
        how = "a sum that was not worked out earned as much as its result"
        yield hack("warning", sums, how, fix, trial, "reward-evaluates-output")


def junk(trial: Trial) -> Iterator[Finding]:
    """Junk is worth nothing."""
    shots = [s for s in (*trial.named("many "), *trial.of("empty")) if as_gold(s, trial)]
    if shots:
        yield hack(
            "blocker", shots, f"{shots[0].probe.name} earned as much as the right answer",
            "Return 0 when no answer is found.", trial,
        )  # fmt: skip


def repetition(trial: Trial) -> Iterator[Finding]:
    """Saying it fifty times must not be worth more."""
    shots = []
    for shot in (*trial.named("gold 50"), *trial.named("wrong 50")):
        best = trial.gold(shot.probe.row) if shot.probe.name.startswith("gold") else trial.wrong(shot.probe.row)
        if shot.reward is not None and best is not None and shot.reward > best + _LENGTH * trial.max_reward:
            shots.append(shot)
    if shots:
        yield hack(
            "blocker", shots, "the same answer repeated fifty times earned more than once",
            "Do not add up matches; count an answer once.", trial,
        )  # fmt: skip


def length(trial: Trial) -> Iterator[Finding]:
    """A bonus for length is the easiest thing to learn."""
    longer = []
    for shot in trial.named("long "):
        right = shot.probe.name.startswith("long gold")
        short = trial.gold(shot.probe.row) if right else trial.wrong(shot.probe.row)
        if shot.reward is not None and short is not None and shot.reward > short + _LENGTH * trial.max_reward:
            longer.append(shot)
    if longer:
        yield hack(
            "blocker", longer, f"{count(len(longer), 'answer')} earned more with filler before it",
            "Take length out of the reward, or pay it only up to a small bound.", trial, "reward-length-bonus",
        )  # fmt: skip


HACKS: tuple[Check, ...] = (
    above_gold, two_answers, form_alone, listed_words, echoes, every_answer, odd_numbers, evaluated, junk, repetition,
    length,
)  # fmt: skip
