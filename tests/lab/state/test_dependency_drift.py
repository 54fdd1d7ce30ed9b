"""How the installed distributions differ from those of a verdict, in words."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.state.dependency_drift import dependency_drift
from prime_lab_mcp.lab.state.ledger.rows import Evidence


def drift(present: dict[str, str] | None, tool: str = "test_reward", **toolchain: Any) -> str | None:
    return dependency_drift(Evidence(tool, "passed", "w", toolchain=toolchain), present)


@pytest.mark.parametrize(
    ("recorded", "present", "said"),
    [
        ({"a": "1 x"}, {"a": "1 x"}, None),
        ({"a": "1 x"}, {"a": "2 x"}, "other dependencies than now: a 1 is 2 now"),
        ({"a": "1 x"}, {}, "other dependencies than now: a 1 is gone"),
        ({}, {"a": "1 x"}, "other dependencies than now: a 1 is new"),
        ({"a": "1 x"}, {"a": "1 y"}, "other dependencies than now: the files of a 1 differ"),
        (
            dict.fromkeys("abcdef", "1 x"),
            dict.fromkeys("abcdef", "1 y"),
            "other dependencies than now: the files of a 1, b 1, c 1, d 1 and 2 more differ",
        ),
        (
            {},
            dict.fromkeys("abcdef", "1 x"),
            "other dependencies than now: a 1 is new, b 1 is new, c 1 is new, d 1 is new and 2 more",
        ),
    ],
    ids=["same", "version", "gone", "new", "rebuilt", "many rebuilt", "many new"],
)
def test_a_difference_is_said_by_name_and_version(
    recorded: dict[str, str], present: dict[str, str], said: str | None
) -> None:
    assert drift(present, distributions=recorded) == said


def test_a_verdict_that_recorded_no_dependencies_counts_as_different() -> None:
    assert drift({"a": "1 x"}) == "dependencies whose hashes were not recorded; run it again"


def test_nothing_is_compared_where_nothing_was_installed_here() -> None:
    assert drift(None) is None
    assert drift({"a": "1 x"}, "run_eval") is None
    assert drift({"a": "1 x"}, hosted=True) is None
