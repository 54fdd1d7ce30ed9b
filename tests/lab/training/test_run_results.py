"""The results on a run's card, from what the platform tells of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.outcome import RunOutcome, held_out_changes
from prime_lab_mcp.lab.training.run_results import text_of_results
from prime_lab_mcp.lab.training.watch import RunReading
from prime_lab_mcp.tools import training_report

ROWS = [{"step": n, "reward/mean": 0.1 + n / 40} for n in range(20)]
HELD = {"sums": [(0, 0.2), (19, 0.7)]}
RUN = Run("run_1", "training", "run-abab", "w", "k" * 64, "prime", max_cost=17.5)


def reading(**changes: Any) -> RunReading:
    parts: dict[str, Any] = {
        "run": {"status": "COMPLETED", "max_steps": 20},
        "rows": ROWS,
        "usage": {"total_cost_usd": 6.25},
        "checkpoints": [{"step": 10, "status": "READY"}, {"step": 19, "status": "READY"}],
        "progress": {},
        "distribution": {},
        "anomalies": (),
        "missing": {},
    }
    return RunReading(**parts | changes)


def outcome(**data: Any) -> RunOutcome:
    return RunOutcome("yes", {"because": "the run's own evaluations", **data}, ())


def test_rewards_before_and_after_have_intervals() -> None:
    held = [one.as_json() for one in held_out_changes(HELD, 64)]
    shown = text_of_results(RUN, reading(), outcome(held_out=held))
    assert "mean of the first 10 and the last 10 steps: 0.212 (0.158 to 0.267) before" in shown
    assert '"sums": 0.200 at step 0, 0.700 at step 19; difference +0.500 ± 0.148: rose' in shown


def test_checkpoints_the_spend_beside_its_bound_and_anomalies_stand_there() -> None:
    anomaly = Anomaly("suspicious-jump", "warn", 12, "the reward jumped", "Read rollouts.")
    shown = text_of_results(RUN, reading(anomalies=(anomaly,)), outcome())
    for fact in (
        "Checkpoints: step 10 (READY), step 19 (READY)",
        "Best checkpoint by training reward: step 19",
        "Spent: $6.25; upper bound: $17.50",
        "Anomaly suspicious-jump since step 12: the reward jumped (about $2.50 since)",
        "Held-out reward before and after: missing, the run evaluated held-out tasks never",
    ):
        assert fact in shown, fact


def test_what_the_platform_did_not_send_is_missing() -> None:
    gone = {"usage": LabError("no answer", fix="Later.", code="platform-unreachable")}
    shown = text_of_results(RUN, reading(usage={}, rows=[], checkpoints=[], missing=gone), outcome())
    for fact in ("Spent: missing", "Training reward: missing", "Checkpoints: none", "Missing: usage could not be read"):
        assert fact in shown, fact


@pytest.mark.parametrize(("status", "word"), [("STOPPED", "stopped"), ("FAILED", "ended by a failure")])
def test_a_run_that_ended_early_never_worked_but_says_where_it_ended_and_what_is_known(status: str, word: str) -> None:
    ended = reading(run={"status": status, "max_steps": 50})
    because = f"the run was {word} after 20 of 50 steps; what is known: the run's own evaluations"
    card = text_of_results(RUN, ended, outcome())
    assert f"- Whether it worked: ended early; {because}" in card
    report = training_report.outcome(RUN.id, ended, RUN, outcome())
    assert report.summary.endswith(f"Whether it would have worked is not known: {because}.")
    assert report.data["after"]["worked"] == "ended early"
    assert "It worked" not in card + report.summary


def test_a_run_that_made_all_its_steps_is_judged_as_before() -> None:
    assert "- Whether it worked: yes; the run's own evaluations" in text_of_results(RUN, reading(), outcome())


def test_what_a_run_will_cost_and_how_long_it_takes_are_one_forecast() -> None:
    """Steps that become slower cost more than those so far."""
    rows = [{"step": n, "time/step": 60.0 if n < 30 else 120.0} for n in range(40)]
    run = {"status": "RUNNING", "max_steps": 116}
    reading = RunReading(run, rows, {"total_cost_usd": 5.37}, [], {}, {}, (), {}, price_per_hour=7.0)
    assert reading.eta is not None
    assert reading.expected == pytest.approx(5.37 + reading.eta / 3600 * 7.0)
    unpriced = replace(reading, price_per_hour=None)
    assert unpriced.expected == pytest.approx(5.37 * 116 / 40)
