"""The few rollouts of an evaluation that tell a reader the most: one of each kind, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.distribution.tasks import PASS_THRESHOLD
from prime_lab_mcp.lab.evals.conversation import conversation, gold
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.gold_said import Said, gold_of, said, telling
from prime_lab_mcp.lab.text import quote

"""Reward / attainable from which on a rollout counts as solved (lab/distribution)."""
_EPSILON = 1e-9
WINNER, CUT, HELD = "shortest winner", "rewarded though cut off", "no reward, though it holds the right answer"
_ZERO = "first of its class: {}"


@dataclass(frozen=True, slots=True)
class Telling:
    """One rollout with why it is shown. All texts but `why` are foreign, quoted and cut."""

    why: str
    task: str
    reward: float | None
    prompt: str
    completion: str
    gold: str | None
    error: str | None
    completion_tokens: int


class Tellings:
    """Holds at most one rollout of each kind while all of them pass by."""

    def __init__(self, attainable: float) -> None:
        self._attainable = attainable
        self._kept: dict[str, Rollout] = {}

    def see(self, rollout: Rollout, zero: str | None) -> None:
        """`zero` is the class of a rollout that earned nothing."""
        if zero is not None:
            self._kept.setdefault(_ZERO.format(zero), rollout)
        if rollout.reward is None:
            return
        if rollout.reward >= PASS_THRESHOLD * self._attainable:
            best = self._kept.get(WINNER)
            if best is None or len(rollout.completion_text) < len(best.completion_text):
                self._kept[WINNER] = rollout
            if rollout.truncated:
                self._kept.setdefault(CUT, rollout)
        elif rollout.reward <= _EPSILON and HELD not in self._kept and _holds_gold(rollout):
            self._kept[HELD] = rollout

    def found(self) -> tuple[Telling, ...]:
        """What looks most like a fault of the reward first."""
        order = (HELD, CUT, WINNER)
        kinds = [k for k in order if k in self._kept] + sorted(k for k in self._kept if k not in order)
        return tuple(_told(kind, self._kept[kind]) for kind in kinds)


def _holds_gold(rollout: Rollout) -> bool:
    """The right answer stands where the answer does. Golds of one or two characters say too little to count."""
    right = gold_of(gold(rollout))
    return telling(right) and said(right, rollout.completion_text) is Said.ANSWERED


def _told(why: str, rollout: Rollout) -> Telling:
    asked = [m.text for m in conversation(rollout) if m.role == "user" and m.text]
    right = gold(rollout)
    return Telling(
        why=why,
        task=quote(rollout.task[:16]),
        reward=rollout.reward,
        prompt=quote(asked[0], 200) if asked else "",
        completion=quote(rollout.completion_text, 300),
        gold=quote(right, 120) if right is not None else None,
        error=quote(rollout.error, 200) if rollout.error is not None else None,
        completion_tokens=rollout.completion_tokens,
    )
