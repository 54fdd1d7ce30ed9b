"""What is known of an environment and not mended: the warnings of its newest verdicts, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.state.compared_rewards import COMPARED
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.open_warnings import (
    PORT,
    due_comparison,
    open_warnings,
    port_unedited,
    record_port,
    replaced_by,
    warnings_sentence,
)
from prime_lab_mcp.lab.state.snapshot import Snapshot

from .evidence_rows import row


def warned(*codes: str) -> list[dict[str, object]]:
    return [{"code": code, "severity": "warning"} for code in codes]


def test_the_newest_verdict_of_each_tool_counts() -> None:
    rows = [row(findings=warned("small-set")), row(findings=warned("leak-near"))]
    rows.insert(0, row(findings=warned("conflicting-gold"), env_args={"level": 1}))
    assert list(open_warnings(rows)) == ["small-set"]
    assert warnings_sentence("sums", rows).startswith("Known of sums and not mended: small-set (so few prompts")
    assert warnings_sentence("sums", [row()]) == ""
    loose = replace(row(findings=warned("reward-hackable")), env_args={"grading": "loose"})
    assert warnings_sentence("sums", [loose, *rows]) == warnings_sentence("sums", rows)
    named = warnings_sentence("sums", [loose, *rows], arguments=[{"grading": "loose"}])
    assert "reward-hackable" in named
    assert "small-set" in named


def test_a_warning_about_paid_completions_says_what_was_shown_and_how_much_it_earned() -> None:
    shown = [
        {"code": "reward-wrong-passes", "how": "13 wrong answers earned more than half of the maximum", "share": 0.667},
        {"code": "reward-hackable", "how": "a right answer that is then taken back was paid", "share": 0.97},
    ]
    [tested] = [row(findings=warned("reward-wrong-passes", "reward-hackable"), data={"warned": shown})]
    sentence = warnings_sentence("units", [tested])
    assert "reward-wrong-passes (13 wrong answers earned more than half of the maximum, up to 67% of" in sentence
    assert "reward-hackable (a right answer that is then taken back was paid, up to 97% of the maximum)" in sentence
    assert "as much as" not in warnings_sentence("units", [row(findings=warned("reward-wrong-passes"))])


def test_what_a_port_left_behind_is_known_of_exactly_the_files_that_it_wrote(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    port = Snapshot("sums", "environments/sums", Path(), "s1", "c1", "h", {}, (), Manifest())
    record_port(ledger, "w", port, [Finding("port-left", "warning", "a hook is left", "Write it.")])
    [recorded] = ledger.evidence("w", tool=PORT)
    assert (recorded.environment, recorded.source, recorded.content) == ("sums", "s1", "c1")
    assert [finding["code"] for finding in recorded.findings] == ["port-left"]
    ledger.close()


def test_what_a_port_left_is_open_until_its_files_are_edited(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    port = Snapshot("sums", "environments/sums", Path(), "s1", "c1", "h", {}, (), Manifest())
    record_port(ledger, "w", port, [Finding("port-left", "warning", "a reward", "Write it.")])
    assert port_unedited(ledger, "w", "sums", "s1") == 1
    assert port_unedited(ledger, "w", "sums", "s2") == 0
    assert port_unedited(ledger, "w", "other", "s1") == 0
    ledger.close()


def test_a_port_is_compared_where_its_files_were_not_and_the_older_environment_is_there(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    port = Snapshot("sums", "environments/sums", Path(), "s1", "c1", "h", {}, (), Manifest())
    record_port(ledger, "w", port, [], {"same_as": "old", "rendering": "GOLD"})
    assert due_comparison(ledger, "w", "sums", "s2", tmp_path) is None
    (tmp_path / "old").mkdir()
    due = due_comparison(ledger, "w", "sums", "s2", tmp_path)
    assert due is not None
    assert (due.tool, due.arguments) == ("test_reward", {"environment": "sums", "same_as": "old", "rendering": "GOLD"})
    named = {"environment": "sums", "rendering": "GOLD {info.unit}"}
    ledger.record(row("test_reward", environment="sums", source="s2", arguments=named))
    again = due_comparison(ledger, "w", "sums", "s3", tmp_path)
    assert again is not None
    assert again.arguments == {"environment": "sums", "same_as": "old", "rendering": "GOLD {info.unit}"}
    ledger.record(row(COMPARED, environment="sums", source="s2", status="failed"))
    assert due_comparison(ledger, "w", "sums", "s2", tmp_path) is None
    ledger.close()


def test_an_older_environment_is_replaced_once_its_port_pays_the_same(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    port = Snapshot("sums", "environments/sums", Path(), "s1", "c1", "h", {}, (), Manifest())
    record_port(ledger, "w", port, [], {"same_as": "old"})
    assert replaced_by(ledger, "w", "sums") is None
    ledger.record(row(COMPARED, environment="sums", source="s1", status="failed", data={"verdict": "differs"}))
    assert replaced_by(ledger, "w", "sums") is None
    ledger.record(row(COMPARED, environment="sums", source="s1", data={"verdict": "equal"}))
    assert replaced_by(ledger, "w", "sums") == "old"
    assert replaced_by(ledger, "w", "other") is None
    ledger.close()


def test_files_that_were_changed_for_a_flaw_of_both_environments_are_not_compared_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    port = Snapshot("sums", "environments/sums", Path(), "s1", "c1", "h", {}, (), Manifest())
    record_port(ledger, "w", port, [], {"same_as": "old"})
    (tmp_path / "old").mkdir()
    ledger.record(row(COMPARED, environment="sums", source="s1", data={"verdict": "equal"}))
    assert due_comparison(ledger, "w", "sums", "s2", tmp_path) is not None
    ledger.record(row("test_reward", environment="sums", source="s1", status="failed"))
    assert due_comparison(ledger, "w", "sums", "s2", tmp_path) is None
    ledger.close()
