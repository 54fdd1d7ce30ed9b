"""What the difference between stored rewards and those of two new scorings is said to be."""

from __future__ import annotations

from prime_lab_mcp.lab.evals.rescore.confirmation import differences
from prime_lab_mcp.lab.evals.rescore.stored import StoredRecord
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.worker.faults import Problem, ProblemCode
from prime_lab_mcp.lab.worker.scoring import CaseError, Component, Scored

RAISED = Scored(
    "0",
    None,
    {"close": Component(None, 1.0)},
    errors=(CaseError("TypeError", "unsupported operand", "close:wordage.py:25"),),
    problems=(Problem(ProblemCode.SWALLOWED),),
)


def stored(score: float) -> StoredRecord:
    return StoredRecord({}, "t", Rollout("0", score, {"close": (score, 1.0)}), scorable=True)


def test_a_reward_that_raises_and_is_stored_as_0_is_said_to_raise() -> None:
    [found] = differences([stored(0.0)] * 32, [RAISED] * 32, [RAISED] * 32, decides=True)

    assert (found.code, found.severity, found.where) == ("reward-raises", "blocker", "close:wordage.py:25")
    assert "32 of 32 rollouts" in found.message
    assert "TypeError: unsupported operand" in found.message


def test_a_reward_that_raises_and_is_stored_as_more_than_0_differs() -> None:
    found = list(differences([stored(1.0)] * 32, [RAISED] * 32, [RAISED] * 32, decides=True))

    assert [one.code for one in found] == ["eval-rewards-differ"]


def test_a_reward_that_raises_for_a_few_rollouts_is_a_warning() -> None:
    paid = Scored("0", 1.0, {"close": Component(1.0, 1.0)})
    again = [RAISED] * 2 + [paid] * 30

    [found] = differences([stored(0.0)] * 2 + [stored(1.0)] * 30, again, again, decides=True)

    assert (found.code, found.severity) == ("reward-raises", "warning")
