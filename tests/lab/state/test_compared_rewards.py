"""The sentence in the question of a push about the last comparison of rewards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.state.compared_rewards import comparison_sentence, record_comparison
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot

FILES = Snapshot("sums", "environments/sums", Path(), "s", "c", "h", {}, (), Manifest())


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "l.sqlite3")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (
            {"verdict": "equal", "completions": 1},
            "passed",
            'it pays the same as "old" for 1 completion tried, also by each component that pays something',
        ),
        (
            {"verdict": "equal-where-reached", "completions": 4},
            "failed",
            'it pays the same as "old" for 4 completions tried, which did not reach every component and task',
        ),
        (
            {
                "verdict": "equal-where-reached",
                "completions": 24,
                "compared_tasks": 14,
                "total_tasks": 60,
                "unexercised": 0,
                "unmatched_tasks": 0,
            },
            "passed",
            'it pays the same as "old" for 24 completions tried of 14 of its 60 tasks',
        ),
        (
            {
                "verdict": "equal-where-reached",
                "completions": 4,
                "compared_tasks": 2,
                "total_tasks": None,
                "unexercised": 1,
                "unmatched_tasks": 0,
            },
            "failed",
            'it pays the same as "old" for 4 completions tried of 2 tasks of an unknown number; none of them earned 1 '
            "component",
        ),
        ({"verdict": "not-compared"}, "failed", 'too little could be compared with "old" to call it equal'),
        (
            {"verdict": "different", "completions": 4, "differ": 2},
            "failed",
            '2 of 4 completions earned something else than in "old"',
        ),
        (
            {"verdict": "different", "differ": 2},
            "failed",
            '2 of its completions earned something else than in "old"',
        ),
        (
            {"verdict": "equal", "completions": 1, "absent_tasks": 6},
            "passed",
            'it pays the same as "old" for 1 completion tried, also by each component that pays something; 6 tasks of '
            '"old" are missing here',
        ),
        (
            {"verdict": "equal", "completions": 1, "other_replies": 2},
            "passed",
            'it pays the same as "old" for 1 completion tried, also by each component that pays something; but the '
            "environment answers "
            'otherwise in 2 rollouts than in "old" (conversation-differs)',
        ),
    ],
    ids=[
        "equal",
        "in part",
        "some tasks",
        "endless tasks",
        "not compared",
        "different",
        "unknown number",
        "without some tasks",
        "other replies",
    ],
)
def test_the_newest_comparison_of_these_files_is_told(
    ledger: Ledger, data: dict[str, Any], status: str, sentence: str
) -> None:
    record_comparison(ledger, "w", FILES, {"environment": "older"})
    record_comparison(ledger, "w", FILES, {"environment": "old", **data})
    assert ledger.evidence("w", limit=1)[0].status == status
    assert comparison_sentence(ledger, "w", FILES) == f" By the last comparison, {sentence}."


def test_the_fullest_comparison_is_quoted_with_what_differs_and_what_another_one_found(ledger: Ledger) -> None:
    whole = {"environment": "old", "verdict": "differs", "completions": 792, "differ": 1, "tasks": 70}
    trial = {"environment": "old", "verdict": "equal", "completions": 365, "tasks": 70, "other_starts": 70}
    record_comparison(ledger, "w", FILES, {**whole, "unscored": 2})
    record_comparison(ledger, "w", FILES, trial)
    told = comparison_sentence(ledger, "w", FILES)
    assert told.startswith(
        ' By the fullest of 2 comparisons, 1 of 792 completions earned something else than in "old"; 2 completions had '
        "no reward in time."
    )
    assert (
        'found that it pays the same as "old" for 365 completions tried, also by each component that pays something; '
        "but 70 of 70 tasks" in told
    )
    assert 'begin with other messages than in "old" (conversation-differs).' in told


def test_a_smaller_comparison_that_found_the_same_is_not_told(ledger: Ledger) -> None:
    for completions in (792, 365):
        data = {"environment": "old", "verdict": "equal", "completions": completions}
        record_comparison(ledger, "w", FILES, data)
    assert comparison_sentence(ledger, "w", FILES) == (
        ' By the fullest of 2 comparisons, it pays the same as "old" for 792 completions tried, also by each component '
        "that pays something."
    )


def test_without_a_comparison_nothing_is_told(ledger: Ledger) -> None:
    assert comparison_sentence(ledger, "w", FILES) == ""
