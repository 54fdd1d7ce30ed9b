"""Results beside the replies of the endpoint, on plain files."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.evals.runner.answered import AnsweredReplies


def test_results_without_a_rollout_claim_nothing(tmp_path: Path) -> None:
    results = tmp_path / "traces.jsonl"
    results.touch()
    assert AnsweredReplies(tmp_path / "count", tmp_path / "replies").findings(results, 0) == ()
