"""What each kind of row of the ledger comes back as, and which rows a query finds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LedgerError
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, JobFolder, Push, Run
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot

NOW = 1_000_000.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "l.sqlite3", holder="us", now=lambda: NOW)
    yield opened
    opened.close()


# Verdicts


def verdict(**changes: Any) -> Evidence:
    return replace(Evidence("run_eval", "passed", "w", "sums", "s", "c"), **changes)


def blocked_by(code: str, severity: str = "blocker") -> list[dict[str, str]]:
    return [{"code": code, "severity": severity}]


def test_a_verdict_has_the_time_that_it_came_with_or_that_of_its_recording(ledger: Ledger) -> None:
    assert [ledger.record(verdict()), ledger.record(verdict(at=5.0))] == [1, 2]
    assert [(row.id, row.at) for row in ledger.evidence()] == [(2, 5.0), (1, NOW)]


def test_verdicts_are_found_by_every_field_that_is_given(ledger: Ledger) -> None:
    wanted = verdict(config_sha256="x")
    ledger.record(wanted)
    for other in ("workspace", "tool", "environment", "source", "content", "config_sha256"):
        ledger.record(replace(wanted, **{other: "other"}))
    fields = {"tool": "run_eval", "environment": "sums", "source": "s", "content": "c", "config_sha256": "x"}
    assert [row.id for row in ledger.evidence("w", **fields)] == [1]
    assert [row.id for row in ledger.evidence(limit=2)] == [7, 6]
    assert len(ledger.evidence()) == 7


def test_of_verdicts_that_no_gate_tells_apart_the_newest_decides(ledger: Ledger) -> None:
    ledger.record(verdict())
    assert [row.id for row in ledger.decisive("w", "run_eval", source="s")] == [1]
    ledger.record(verdict(env_args={"n": 1}))
    ledger.record(verdict(platform="prime"))
    ledger.record(verdict(model="m", harness="h", status="failed", findings=blocked_by("x")))
    ledger.record(verdict(source="other"))
    assert [row.id for row in ledger.decisive("w", "run_eval", source="s")] == [4, 3, 2]
    assert [row.id for row in ledger.decisive("w", "run_eval", content="c")] == [5, 3, 2]


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({"model": "m"}, True),
        ({"harness": "h"}, True),
        ({"status": "failed"}, True),
        ({"findings": blocked_by("x")}, True),
        ({"findings": blocked_by("x", "warning")}, False),
        ({"data": {"usable_groups": {"group_size": 4}}}, True),
        ({"data": {"usable_groups": {"share": 0.5}}}, False),
        ({"data": {"usable_groups": "unknown"}}, False),
        ({"arguments": {"rollouts": 4}}, False),
    ],
    ids=str,
)
def test_verdicts_on_evaluations_are_told_apart_by_what_gates_ask_of_them(
    ledger: Ledger, changes: dict[str, Any], apart: bool
) -> None:
    for one in (verdict(), verdict(**changes)):
        ledger.record(one)
    decisive = ledger.decisive("w", "run_eval", of_evaluations=True, source="s")
    assert [row.id for row in decisive] == ([2, 1] if apart else [2])


def test_the_newest_verdict_with_a_key_is_found_by_tool_platform_and_config(ledger: Ledger) -> None:
    declined = verdict(tool="submit_training", platform="prime", config_sha256="x", data={"declined_by": "somebody"})
    ledger.record(declined)
    ledger.record(replace(declined, config_sha256="y"))
    ledger.record(replace(declined, data={"other": 1}))
    ledger.record(replace(declined, platform="rehearsal"))
    ledger.record(replace(declined, tool="push_environment"))
    ledger.record(replace(declined, workspace="v"))

    def newest(**changes: Any) -> int | None:
        asked: dict[str, Any] = {"workspace": "w", "tool": "submit_training", "key": "declined_by", "platform": "prime"}
        row = ledger.newest_with(**(asked | changes))
        return None if row is None else row.id

    assert newest() == 2
    assert newest(config_sha256="x") == 1
    assert newest(platform="rehearsal") == 4
    assert newest(key="other") == 3
    assert newest(key="missing") is None
    found = ledger.newest_with("w", "submit_training", "declined_by", platform="prime")
    assert found is not None
    assert found.data == {"declined_by": "somebody"}


def test_large_columns_of_a_verdict_are_read_when_they_are_used(ledger: Ledger) -> None:
    recorded = verdict(toolchain={"verifiers": "1"}, findings=blocked_by("x"), data={"share": 0.5}, env_args={"n": 1})
    ledger.record(recorded)
    queries: list[str] = []
    ledger._db.set_trace_callback(queries.append)  # what SQLite executes is known to the connection alone
    (row,) = ledger.evidence()
    assert row.env_args == {"n": 1}
    assert not any(column in queries[-1] for column in ("toolchain", "findings", "data"))
    assert (row.toolchain, row.findings, row.data) == (recorded.toolchain, blocked_by("x"), {"share": 0.5})
    number = len(queries)
    assert row.blockers == ("x",)
    assert row.data["share"] == 0.5
    assert len(queries) == number
    assert not hasattr(row, "something")


def test_a_verdict_that_is_gone_from_the_file_is_an_error_of_the_ledger(ledger: Ledger) -> None:
    ledger.record(verdict(data={"share": 0.5}))
    (row,) = ledger.evidence()
    ledger._db.execute("DROP TRIGGER evidence_stays")
    ledger._db.execute("DELETE FROM evidence")
    with pytest.raises(LedgerError, match="no verdict 1"):
        _ = row.data


def test_the_version_changes_with_every_verdict_and_every_override(ledger: Ledger) -> None:
    versions = [ledger.version()]
    for _ in range(2):
        ledger.record(verdict())
        versions.append(ledger.version())
        ledger.override("w", "sums", "f", "code", "because")
        versions.append(ledger.version())
    assert len(set(versions)) == 5
    assert ledger.version() == versions[-1]


def test_waived_codes_are_those_of_the_workspace(ledger: Ledger) -> None:
    ledger.override("w", "sums", "f", "code", "because")
    ledger.override("other", "sums", "f", "another", "because")
    assert ledger.overrides("w") == {("f", "code")}


# Snapshots


def snapshot(**changes: Any) -> Snapshot:
    base = Snapshot("sums", "environments/sums", Path(), "s", "c", "h", {"a.py": "1"}, (), Manifest())
    return replace(base, **changes)


def test_the_files_of_a_snapshot_are_found_by_either_fingerprint(ledger: Ledger) -> None:
    ledger.remember("w", snapshot())
    ledger.remember("w", snapshot(source="s2", content="c2", cli_hash="h2", files={"a.py": "2"}))
    assert ledger.files_of(source="s") == ledger.files_of(content="c") == {"a.py": "1"}
    assert ledger.files_of(source="s2") == {"a.py": "2"}
    assert ledger.files_of(source="none") == {}


def test_a_snapshot_that_is_remembered_again_is_not_written_again(ledger: Ledger) -> None:
    ledger.remember("w", snapshot())
    ledger.remember("w", snapshot(files={"a.py": "another"}))
    assert ledger.files_of(source="s") == {"a.py": "1"}


def test_files_are_known_by_any_of_their_fingerprints(ledger: Ledger) -> None:
    ledger.remember("w", snapshot())
    assert ledger.knows_files(source="s")
    assert ledger.knows_files(content="c")
    assert ledger.knows_files(source="x", content="x", cli_hash="h")
    assert not ledger.knows_files(source="x", content="x", cli_hash="x")


# Pushes and runs


def test_pushes_come_back_as_they_were_recorded_newest_first(ledger: Ledger) -> None:
    first = Push("w", "sums", "me", "sums", "0.1.0", "s", "c", "h", "prime", "x", "v1", "hub", at=7.0)
    ledger.record_push(first)
    before = time.time()
    ledger.record_push(replace(first, version="0.1.1", at=0.0))
    newest, oldest = ledger.pushes(owner="me", name="sums", platform="prime", workspace="w", environment="sums")
    assert oldest == first
    assert newest.version == "0.1.1"
    assert before <= newest.at <= time.time()
    assert ledger.pushes(source="other") == []


def test_a_run_that_is_recorded_again_has_its_new_facts(ledger: Ledger) -> None:
    run = Run("run-1", "training", "sums", "w", "key", "prime", max_cost=5.0, at=7.0)
    ledger.record_run(run)
    ledger.record_run(replace(run, name="sums-2", data={"step": 3}))
    ledger.record_run(replace(run, platform="rehearsal"))
    assert ledger.runs(platform="prime") == [replace(run, name="sums-2", data={"step": 3})]
    assert len(ledger.runs(id="run-1", workspace="w", intent="key", kind="training")) == 2
    assert len(ledger.runs(limit=1)) == 1


def test_the_names_of_training_runs_are_not_those_of_hosted_evaluations(ledger: Ledger) -> None:
    for number, kind in enumerate(("training", "training", "hosted-eval")):
        ledger.record_run(Run(f"run-{number}", kind, f"name-{number}", "w", "key", "prime"))  # type: ignore[arg-type]
    assert ledger.training_names() == {"name-0", "name-1"}


# Money


def test_an_amount_that_is_reserved_again_counts_once_and_the_larger_stays(ledger: Ledger) -> None:
    for amount, counted in ((0.5, 0.5), (0.75, 0.75), (0.25, 0.75), (None, 0.75)):
        assert ledger.reserve("a", amount, "run", "prime", None) is True
        assert ledger.spent("prime") == counted
    (row,) = ledger.spend("prime")
    assert (row.bound, row.at, row.what) == (0.75, NOW, "run")


def test_reserving_stays_within_the_cap_with_what_others_reserved(ledger: Ledger) -> None:
    assert ledger.reserve("a", 0.1, "run", "prime", 0.4)
    assert ledger.reserve("b", 0.2, "run", "prime", 0.4)
    assert ledger.reserve("b", 0.3, "run", "prime", 0.4)
    assert ledger.reserve("b", 0.4, "run", "prime", 0.4) is False
    assert ledger.reserve("c", 0.1, "run", "prime", 0.4) is False
    assert ledger.reserve("c", 0.1, "run", "rehearsal", 0.4)
    assert ledger.spent("prime") == pytest.approx(0.4)


def test_a_committed_amount_of_a_known_price_is_its_bound(ledger: Ledger) -> None:
    ledger.commit_spend("a", 5.0, "run", "prime")
    assert [(row.amount, row.bound) for row in ledger.spend("prime")] == [(5.0, 5.0)]


def test_what_was_spent_unasked_counts_since_the_last_question(ledger: Ledger) -> None:
    assert ledger.unasked("prime") == 0.0
    for name, amount, asked in (("a", 1.0, False), ("b", 2.0, True), ("c", 0.25, False), ("d", 0.5, False)):
        ledger.reserve(name, amount, "evaluation", "prime", None, asked=asked)
    ledger.reserve("e", 9.0, "run", "prime", None)
    assert (ledger.unasked("prime"), ledger.unasked("rehearsal")) == (0.75, 0.0)
    ledger.reserve("a", 1.0, "evaluation", "prime", None, asked=False)
    assert ledger.unasked("prime") == 1.75


def test_releasing_leaves_what_was_reserved_later(ledger: Ledger) -> None:
    ledger.reserve("a", 1.0, "run", "prime", None)
    ledger.unreserve("a", "prime", until=NOW - 1)
    assert ledger.spent("prime") == 1.0
    ledger.unreserve("a", "prime", until=NOW)
    assert ledger.spent("prime") == 0.0


# Intents


def test_a_claim_is_counted_from_one_and_belongs_to_its_holder(ledger: Ledger, tmp_path: Path) -> None:
    claim = ledger.claim("key", "push", "prime")
    assert (claim.state, claim.attempt, claim.mine, claim.at, claim.holder) == ("open", 1, True, NOW, "us")
    known = ledger.intent("key", "prime")
    assert known is not None
    assert (known.state, known.attempt, known.mine, known.result) == ("sent", 1, True, {"phase": "claimed"})
    other = Ledger(tmp_path / "l.sqlite3")
    seen = other.intent("key", "prime")
    assert seen is not None
    assert (seen.mine, seen.holder) == (False, "us")
    other.close()
    assert ledger.intent("key", "rehearsal") is None


def test_ledgers_without_a_given_holder_hold_claims_of_their_own(tmp_path: Path) -> None:
    first, second = (Ledger(tmp_path / "l.sqlite3") for _ in range(2))
    claim = first.claim("key", "push", "prime")
    assert second.note("key", "prime", claim.attempt, {"phase": "sending"}) is False
    assert first.note("key", "prime", claim.attempt, {"phase": "sending"}) is True
    first.close()
    second.close()


def test_facts_are_added_to_the_claim_that_noted_them_and_to_no_other(ledger: Ledger) -> None:
    ledger.claim("key", "push", "prime")
    assert ledger.note("key", "prime", 1, {"since": 5}) is True
    assert ledger.note("key", "prime", 2, {"since": 6}) is False
    assert ledger.note("none", "prime", 1, {"since": 6}) is False
    known = ledger.intent("key", "prime")
    assert known is not None
    assert known.result == {"phase": "claimed", "since": 5}


def test_only_a_claim_whose_outcome_is_unknown_is_taken_over(ledger: Ledger) -> None:
    ledger.claim("key", "push", "prime")
    assert ledger.claim("key", "push", "prime", after=7).state == "sent"
    assert ledger.claim("key", "push", "prime", after=1).attempt == 2
    ledger.settle("key", "prime", {"version": "0.1.0"})
    done = ledger.claim("key", "push", "prime", after=2)
    assert (done.state, done.attempt, done.result) == ("done", 2, {"version": "0.1.0"})


def test_releasing_says_whether_a_claim_was_released(ledger: Ledger) -> None:
    assert ledger.release("key", "prime") is False
    ledger.claim("key", "push", "prime")
    assert ledger.release("key", "prime", attempt=2) is False
    assert ledger.release("key", "prime", attempt=1) is True
    assert ledger.release("key", "prime", attempt=1) is False


def test_the_first_record_of_an_end_counts(tmp_path: Path) -> None:
    clock = iter((1.0, 2.0, 3.0))
    ledger = Ledger(tmp_path / "l.sqlite3", now=lambda: next(clock))
    ledger.claim("key", "push", "prime")
    assert ledger.record_end("key", "prime", 1, by="us", landing=10.0) == 2.0
    assert ledger.record_end("key", "prime", 1, by="witness") == 2.0
    known = ledger.intent("key", "prime")
    assert known is not None
    assert known.result == {"phase": "claimed", "over": 2.0, "by": "us", "clear": 12.0}
    ledger.close()


def test_an_end_without_a_time_of_landing_leaves_open_when_the_outcome_is_clear(ledger: Ledger) -> None:
    ledger.claim("key", "push", "prime")
    assert ledger.record_end("key", "prime", 1, by="witness") == NOW
    known = ledger.intent("key", "prime")
    assert known is not None
    assert known.result == {"phase": "claimed", "over": NOW, "by": "witness"}


def test_the_end_of_a_claim_that_is_unknown_changes_nothing(ledger: Ledger) -> None:
    assert ledger.record_end("key", "prime", 1, by="witness") == NOW
    assert ledger.intent("key", "prime") is None


# Approvals


def test_a_token_holds_its_question_and_becomes_an_approval_in_a_terminal(ledger: Ledger) -> None:
    token = ledger.offer("key", "Publish?", 5.0, "prime")
    offered = ledger.approval(token)
    assert offered is not None
    assert (offered.intent, offered.question, offered.max_cost, offered.platform) == ("key", "Publish?", 5.0, "prime")
    assert offered.approved_at is None
    assert ledger.approved("key") is False
    ledger.approve(token)
    approved = ledger.approval(token)
    assert approved is not None
    assert approved.approved_at is not None
    assert ledger.approved("key") is True
    assert ledger.approved("other") is False


def test_a_token_has_twelve_characters_for_a_person_to_copy(ledger: Ledger) -> None:
    tokens = {ledger.offer("key", "Publish?", None, "prime") for _ in range(3)}
    assert {len(token) for token in tokens} == {12}
    assert len(tokens) == 3


def test_a_token_that_nobody_offered_is_none(ledger: Ledger) -> None:
    assert ledger.approval("none") is None


# Jobs


def job(id: str = "eval-1", **changes: Any) -> Job:
    base = Job(id, "w", "sums", "s", "c", "key", "running", 1, time.time() + 60, 9.0, None, {"n": 1}, {"done": 0})
    return replace(base, **changes)


def test_a_job_comes_back_as_it_was_created(ledger: Ledger) -> None:
    created = job(at=7.0, judged=True)
    assert ledger.create_job(created) == created == ledger.job("eval-1")
    assert ledger.jobs() == [created]
    assert ledger.job("none") is None


def test_a_job_has_the_time_of_its_creation(ledger: Ledger) -> None:
    before = time.time()
    ledger.create_job(job())
    created = ledger.job("eval-1")
    assert created is not None
    assert before <= created.at <= time.time()


def test_jobs_are_found_by_every_field_that_is_given_newest_first(ledger: Ledger) -> None:
    ledger.create_job(job())
    for number, other in enumerate(({"environment": "x"}, {"source": "x"}, {"state": "stopped"}, {"workspace": "x"})):
        ledger.create_job(job(f"other-{number}", intent=f"key-{number}", **other))
    assert [one.id for one in ledger.jobs("w", environment="sums", source="s", state="running")] == ["eval-1"]
    assert [one.id for one in ledger.jobs(limit=2)] == ["other-3", "other-2"]
    assert len(ledger.jobs()) == 5


def test_a_change_of_a_job_stores_mappings_and_plain_values(ledger: Ledger) -> None:
    ledger.create_job(job())
    ledger.update_job("eval-1", progress={"done": 3}, state="finished")
    changed = ledger.job("eval-1")
    assert changed is not None
    assert (changed.progress, changed.state, changed.spec) == ({"done": 3}, "finished", {"n": 1})


def test_the_folders_of_jobs_are_listed_without_their_specification(ledger: Ledger) -> None:
    ledger.create_job(job(lease=5.0, judged=True))
    ledger.create_job(job("eval-2", intent="other", state="finished", lease=6.0, content="c2"))
    assert ledger.job_folders() == [
        JobFolder("eval-2", "finished", 6.0, "c2", False),
        JobFolder("eval-1", "running", 5.0, "c", True),
    ]


def test_a_finished_job_is_judged_by_the_first_caller_alone(ledger: Ledger) -> None:
    ledger.create_job(job())
    assert ledger.judge("eval-1", [verdict()]) == []
    ledger.update_job("eval-1", state="finished")
    assert [one.id for one in ledger.unjudged("w")] == ["eval-1"]
    assert ledger.judge("eval-1", [verdict(), verdict()]) == [1, 2]
    assert ledger.judge("eval-1", [verdict()]) == []
    assert len(ledger.evidence()) == 2
    assert ledger.unjudged("w") == []


def test_jobs_that_wait_for_a_verdict_are_found_by_their_source_oldest_first(ledger: Ledger) -> None:
    for number in range(3):
        ledger.create_job(job(f"eval-{number}", intent=f"key-{number}", source=f"s{number % 2}", state="finished"))
    assert [one.id for one in ledger.unjudged("w")] == ["eval-0", "eval-1", "eval-2"]
    assert [one.id for one in ledger.unjudged("w", source="s0")] == ["eval-0", "eval-2"]


def test_the_progress_of_a_finished_job_is_replaced_unless_it_was_judged_or_resumed(ledger: Ledger) -> None:
    finished = ledger.create_job(job(state="finished"))
    assert ledger.note_finished(finished, {"done": 4}) is True
    assert ledger.note_finished(replace(finished, lease=1.0), {"done": 5}) is False
    ledger.judge("eval-1", [])
    assert ledger.note_finished(finished, {"done": 6}) is False
    known = ledger.job("eval-1")
    assert known is not None
    assert known.progress == {"done": 4}
