"""Compares the rewards of trivial policies with the share of tasks on which such a policy is right by chance.

A trivial policy does not look at the question: it gives the same reply to every task, guesses among the options or
labels, lists all options, or repeats the prompt. Its deserved share is the share of tasks on which the best constant
answer, or a guess, is right. A reward that pays a trivial policy on a larger share of tasks teaches the policy instead
of the task, so the rules block. At or below the deserved share the pay is chance, and the rules warn.

Completions that contain the right answer (`NEEDS_ANSWER` in probes/families.py, `Probe.knowing`) are not trivial
policies, because only a model that knows the answer can write them. For them the rules warn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Severity
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import NEEDS_ANSWER, Family
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE


def needs_answer(scored_probe: ScoredProbe) -> bool:
    """Whether only a model that knows the right answer, or part of it, can write this completion."""
    return scored_probe.probe.knowing or scored_probe.probe.family in NEEDS_ANSWER


def paid_for_calls(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether silence after the same calls of a solution earns more than half of the maximum.

    The calls have then handed the answer in, and only a model that knows the answer can make them. What the last reply
    says is worth less.
    """
    if not scored_probe.probe.given:
        return False
    row = scored_probe.probe.row
    silent = (s.reward for s in trial.of(Family.EMPTY) if s.probe.row == row and s.probe.given)
    return any(reward is not None and reward > HALF_SHARE * trial.maximum(row) + EPSILON for reward in silent)


def deserved_share(trial: Trial, rows: Iterable[int]) -> float:
    """Return the deserved share: the largest share of tasks on which one trivial policy is right.

    The policies are the most frequent answer of the tasks in `rows`, the most frequent answer of the whole sample, and
    a guess among the labels. 0 if the tasks have no gold.
    """
    if trial.style is None:
        return 0.0
    answers = {g.row: trial.style.answer_text(g).strip().lower() for g in trial.style.golds.golds}
    here = [answers[row] for row in set(rows) if row in answers]
    labels = len(trial.style.golds.labels)
    return max(
        _commonest_share(here) if len(here) > 1 else 0.0,
        _commonest_share(list(answers.values())) if len(answers) > 1 else 0.0,
        1 / labels if labels >= 2 else 0.0,
    )


def _commonest_share(answers: Sequence[str]) -> float:
    return max(Counter(answers).values()) / len(answers) if answers else 0.0


@dataclass(frozen=True, slots=True)
class PaidPolicy:
    """A trivial policy that was paid: the probes of one variant on several tasks."""

    tried: int
    """Number of tasks on which the policy was tried."""
    paid: tuple[ScoredProbe, ...]
    """The completions that were paid."""
    deserved: float
    """The deserved share (`deserved_share`)."""
    by_calls: bool = False
    """Whether calls before the completions earn more than half (`paid_for_calls`)."""

    @property
    def share(self) -> float:
        """Share of the tasks on which the policy was paid."""
        return len({s.probe.row for s in self.paid}) / self.tried if self.tried else 0.0

    @property
    def severity(self) -> Severity:
        """`blocker` if the policy is paid on more tasks than it deserves, and not for calls, else `warning`."""
        return "blocker" if self.share > self.deserved + EPSILON and not self.by_calls else "warning"

    @property
    def tasks_text(self) -> str:
        """The end of a sentence that states on how many tasks the policy is paid, and the deserved share."""
        return f"on {len({s.probe.row for s in self.paid})} of {self.tried} tasks (chance: {self.deserved:.0%})"


def best_paid_policy(
    scored_probes: Iterable[ScoredProbe], trial: Trial, is_paid: Callable[[ScoredProbe, Trial], bool]
) -> PaidPolicy | None:
    """Return the policy whose share of paid tasks exceeds its deserved share by most; None if none is paid.

    Probes of one family and variant have the same text for every task, so each variant is a policy. `is_paid` decides
    whether a completion is paid.
    """
    policies: dict[tuple[str, str, bool], list[ScoredProbe]] = {}
    for scored_probe in scored_probes:
        if scored_probe.reward is not None:
            policies.setdefault(
                (scored_probe.probe.family, scored_probe.probe.variant, scored_probe.probe.bare), []
            ).append(scored_probe)
    best: PaidPolicy | None = None
    for tried in policies.values():
        paid = tuple(s for s in tried if is_paid(s, trial))
        if paid:
            rows = {s.probe.row for s in tried}
            by_calls = all(paid_for_calls(s, trial) for s in paid)
            policy = PaidPolicy(len(rows), paid, deserved_share(trial, rows), by_calls)
            if best is None or policy.share - policy.deserved > best.share - best.deserved:
                best = policy
    return best
