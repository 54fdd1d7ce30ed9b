"""Results beside the replies of the endpoint, on plain files."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.evals.runner.answered_replies import AnsweredReplies, _LastTurn, _NotedLines


def test_results_without_a_rollout_claim_nothing(tmp_path: Path) -> None:
    results = tmp_path / "traces.jsonl"
    results.touch()
    assert AnsweredReplies(tmp_path / "count", tmp_path / "replies").findings(results, 0) == ()


def test_rollouts_that_share_replies_leave_each_other_their_own() -> None:
    """Two games of a task end with the same reply to the same message, the longer one after more moves."""
    lines = _NotedLines()
    lines.add("take-1 | rules move other start\n")
    lines.add("take-1 | rules start\n")
    short, long = frozenset({"rules", "start"}), frozenset({"rules", "move", "other", "start"})
    longer = _LastTurn("take-1", "start", long, long | {"end"}, False)
    shorter = _LastTurn("take-1", "start", short, short | {"end"}, False)
    assert [lines.take(longer), lines.take(shorter)] == [True, True]
    lines.add("take-1 | rules start\n")
    assert lines.take(_LastTurn("take-1", "other", frozenset({"other"}), frozenset({"other"}), False)) is False
