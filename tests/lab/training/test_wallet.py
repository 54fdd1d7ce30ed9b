"""What the wallet holds for a run beside what other runs may still cost."""

from __future__ import annotations

from prime_lab_mcp.lab.training.wallet import WalletForRun, wallet_findings


def test_a_wallet_that_other_runs_may_empty_has_no_negative_rest() -> None:
    """$81.10, of which other runs may take $99.60, "and the rest is less": a rest of minus $18.50."""
    [low] = wallet_findings(WalletForRun(81.1, 99.6), 40.0, None)
    assert "the rest" not in low.message
    assert "runs that nobody has seen end may take $99.60, so that nothing is left for the $40.00" in low.message
    [less] = wallet_findings(WalletForRun(81.1, 60.0), 40.0, None)
    assert (
        "of which runs that nobody has seen end may take $60.00, and the rest is less than the $40.00" in less.message
    )
