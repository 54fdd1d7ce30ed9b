"""The overview of what was spent: bounds and actual costs by environment, evaluation and run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prime_lab_mcp.cli import spend as terminal
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.spend import SpendEntry, SpendOverview, spend_entries, spend_overview
from prime_lab_mcp.lab.state.ledger.rows import Job, Run, SpendRow
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

PRIME = {"preset": "prime", "url": "https://api.example.test/v1", "key_variable": "PRIME_API_KEY", "team": None}
OWN = {"preset": "vllm", "url": "http://localhost:8000/v1", "key_variable": None, "team": None}


def job(id: str, **spec: Any) -> Job:
    given = {"endpoint": PRIME, "model": "m", "max_cost": None, **spec}
    return Job(id, "/w", "sums", "s", "c", f"intent of {id}", "finished", None, 0, 0, "prime", given, at=1.0)


def run(id: str, **fields: Any) -> Run:
    return Run(id, "training", f"name of {id}", "/w", f"key of {id}", "prime", at=2.0, **fields)


def one(rows: list[SpendRow], jobs: list[Job], runs: list[Run], run_ids: dict[str, str] | None = None) -> SpendEntry:
    (entry,) = spend_entries(rows, jobs, runs, run_ids or {})
    return entry


def test_an_evaluation_shows_its_bound_and_what_it_cost() -> None:
    row = SpendRow("eval-1", 0.25, "evaluation", "prime", True, bound=1.0, actual=0.25)
    entry = one([row], [job("eval-1", max_cost=1.0)], [])
    assert (entry.kind, entry.bound, entry.actual, entry.counted) == ("evaluation", 1.0, 0.25, 0.25)
    assert (entry.environments, entry.model, entry.unpriced) == (("sums",), "m", None)


@pytest.mark.parametrize(("amount", "actual"), [(0.25, 0.25), (1.0, None)], ids=["corrected", "reserved"])
def test_an_older_row_takes_its_bound_from_what_was_agreed(amount: float, actual: float | None) -> None:
    entry = one([SpendRow("eval-1", amount, "evaluation", "prime")], [job("eval-1", max_cost=1.0)], [])
    assert (entry.bound, entry.actual) == (1.0, actual)


def test_an_evaluation_without_a_price_is_listed_as_such_and_one_on_an_own_server_costs_nothing() -> None:
    foreign = one([], [job("eval-1")], [])
    assert foreign.unpriced == "the endpoint lists no price"
    assert (foreign.bound, foreign.actual) == (None, None)
    own = one([], [job("eval-1", endpoint=OWN)], [])
    assert (own.unpriced, own.bound, own.actual) == (None, 0.0, 0.0)


def test_a_hosted_evaluation_is_one_entry_although_job_and_run_know_it() -> None:
    hosted = Run("ev1", "hosted-eval", "n", "/w", "key", "prime", data={"job": "eval-1"}, at=2.0)
    row = SpendRow("key", 3.0, "hosted evaluation n", "prime", bound=3.0)
    entry = one([row], [job("eval-1", hosted="o/sums@1")], [hosted])
    assert (entry.kind, entry.id, entry.bound, entry.actual) == ("hosted evaluation", "eval-1", 3.0, None)


def test_a_run_names_its_environments_and_a_restart_is_an_entry_of_its_own() -> None:
    card = {"environments": [{"id": "me/sums-a@0.1.0"}, {"id": "me/sums-a@0.1.0"}, {"id": "me/other@1"}]}
    started = run("run_1", max_cost=10.0, data={"card": card})
    rows = [
        SpendRow("key of run_1", 4.0, "training run run_1", "prime", bound=10.0, actual=4.0),
        SpendRow("again", 10.0, "training run run_1, restarted", "prime", bound=10.0, at=3.0),
    ]
    restarted, first = spend_entries(rows, [], [started], {"again": "run_1"})
    assert first.environments == restarted.environments == ("sums_a", "other")
    assert [(e.id, e.bound, e.actual) for e in (first, restarted)] == [("run_1", 10.0, 4.0), ("run_1", 10.0, None)]


def test_a_run_without_a_bound_and_a_judge_without_a_price_are_unpriced() -> None:
    assert one([], [], [run("run_1")]).unpriced == "no upper bound was known when it was sent"
    judge = one([SpendRow("k", 0.0, "judge of sums", "prime", workspace="/w", environment="sums")], [], [])
    assert (judge.kind, judge.environments, judge.unpriced) == ("judge", ("sums",), "the endpoint lists no price")


def test_a_request_whose_outcome_was_never_recorded_stays_in_the_total() -> None:
    entry = one([SpendRow("abcdef0123", 7.0, "submit_training abcdef01", "prime", bound=7.0)], [], [])
    overview = SpendOverview("/w", "prime", 20.0, (entry,))
    assert (entry.kind, overview.total.counted, list(overview.environments)) == ("request", 7.0, ["not known"])
    assert overview.sentence() == (
        "$7.00 of the cap of $20.00 committed for 1 entry: $0.00 known to be spent, $7.00 reserved."
    )


@pytest.mark.anyio
async def test_less_than_a_cent_that_was_spent_is_not_called_nothing(lab: Lab) -> None:
    assert lab.ledger.reserve("key", 5.0, "submit_training key", lab.platform, None)
    lab.ledger.record_run(Run("run_1", "training", "sums", lab.key, "key", lab.platform, max_cost=5.0))
    lab.ledger.correct("key", lab.platform, 0.0047)
    report = await Calls(lab, TOOLS, References()).execute("workflow_status", {"view": "spend"})
    assert "less than $0.01 known to be spent, $0.00 reserved" in report.summary


@pytest.mark.anyio
async def test_the_view_of_the_tool_and_the_command_show_the_ledger(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    intent = "key of run_1"
    assert lab.ledger.reserve(intent, 10.0, "submit_training key", lab.platform, None)
    lab.ledger.record_run(Run("run_1", "training", "sums", lab.key, intent, lab.platform, max_cost=10.0))
    lab.ledger.correct(intent, lab.platform, 4.5)
    report = await Calls(lab, TOOLS, References()).execute("workflow_status", {"view": "spend"})
    assert report.status == "passed", report
    (entry,) = report.data["spend"]["entries"]
    assert (entry["id"], entry["bound"], entry["actual"]) == ("run_1", 10.0, 4.5)
    assert terminal.spend(lab.settings, as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["entries"] == report.data["spend"]["entries"]
    assert printed["total"] == spend_overview(lab).total.as_json()
    assert terminal.spend(lab.settings, as_json=False) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "run_1" in line]
    assert "$10.00" in line
    assert "$4.50" in line
