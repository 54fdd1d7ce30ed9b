"""What a completion deserves that was made without knowing the answer: the share of tasks that trivial policies solve.

A trivial policy says the same on every task (a constant, the commonest answer, nothing, an empty form), guesses in the
form (one of the options or labels), names every option, or repeats the prompt. It deserves to be right where its
constant is the answer, and no more. A reward that pays such a completion above that share trains the policy instead of
the task, so a rule blocks; at or below the share the pay is chance, and a rule warns.

Completions that hold the answer (`NEEDS_ANSWER` in probes/families.py, `Probe.knowing`) are no trivial policies: only
somebody who knows the answer profits from what a reward pays for them. They warn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Severity
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import NEEDS_ANSWER
from prime_lab_mcp.lab.rewards.thresholds import EPSILON


def needs_answer(scored_probe: ScoredProbe) -> bool:
    """Whether only somebody who knows the right answer can write this completion."""
    return scored_probe.probe.knowing or scored_probe.probe.family in NEEDS_ANSWER


def deserved_share(trial: Trial, rows: Iterable[int]) -> float:
    """The largest share of `rows` on which one trivial policy is right.

    The policies are the constant answer that is right most often on these tasks, the one that is right most often in
    the whole sample, and a guess among the labels. 0 where the tasks hold no gold.
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
    """One trivial policy: a probe of one variant on several tasks. `paid` are the completions that earned like gold."""

    tried: int
    """Number of tasks."""
    paid: tuple[ScoredProbe, ...]
    deserved: float

    @property
    def share(self) -> float:
        return len({s.probe.row for s in self.paid}) / self.tried if self.tried else 0.0

    @property
    def severity(self) -> Severity:
        """A blocker above the deserved share, else a warning."""
        return "blocker" if self.share > self.deserved + EPSILON else "warning"

    @property
    def tasks_text(self) -> str:
        """How often the policy is paid and deserves to be paid, as the end of a sentence."""
        return f"on {len({s.probe.row for s in self.paid})} of {self.tried} tasks (chance: {self.deserved:.0%})"


def best_paid_policy(
    scored_probes: Iterable[ScoredProbe], trial: Trial, is_paid: Callable[[ScoredProbe, Trial], bool]
) -> PaidPolicy | None:
    """Of the policies in `scored_probes`, the one that is paid above its deserved share by most; None if none is paid.

    Probes of one family and variant say the same on every task, so each variant is one policy.
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
            policy = PaidPolicy(len(rows), paid, deserved_share(trial, rows))
            if best is None or policy.share - policy.deserved > best.share - best.deserved:
                best = policy
    return best
