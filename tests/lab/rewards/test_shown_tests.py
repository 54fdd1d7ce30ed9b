"""Tests that a prompt promises to be hidden."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.shown_tests import find_shown_tests
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, sound

READS = "for case in self.data.held_out: good += run(program, case['xs']) == case['out']"
PROMISE = "It will be tested on further lists."
BLOCKS = ("reward-hackable", "blocker")


def rows(seed_of_tests: int, promise: str = PROMISE) -> list[Row]:
    made = []
    for n in range(6):
        shown, held = ([{"xs": [n, k + s, 7], "out": 7 + n + k + s} for k in range(3)] for s in (0, seed_of_tests))
        lines = "\n".join(f"xs = {c['xs']} -> {c['out']}" for c in shown)
        prompt = {"role": "user", "content": f"Write the sum.\n{lines}\n{promise}"}
        made.append(Row(n, str(n), (prompt,), None, None, {"held_out": held, "name": "sum"}))
    return made


@pytest.mark.parametrize(
    ("made", "source", "severity"),
    [
        (rows(0), READS, "blocker"),
        (rows(0, "It has to be right for every valid input."), READS, "blocker"),
        (rows(0, "These are all the tests."), READS, "warning"),
        (rows(50), READS, None),
        (rows(50, "It has to be right for every valid input."), READS, None),
        (rows(0), "for case in make_cases(self.data.name): ...", None),
    ],
)
def test_shown_tests_that_the_reward_reads_block_where_more_is_asked(
    made: list[Row], source: str, severity: str | None
) -> None:
    trial = replace(sound(), shown_tests=find_shown_tests(made, source))
    assert [s for code, s in found(trial) if code == "reward-hackable"] == ([severity] if severity else [])


@pytest.mark.parametrize("shown", ["sum_2([1, 2], 3) -> 6", "`sum_up([1,2], 3)` returns 6", "[[1, 2], 3] => 6"])
def test_tests_in_json_are_shown_as_calls(shown: str) -> None:
    made = calls(f"{shown}\nsum_up([0], 12) -> 12")
    shown_tests = find_shown_tests(made, 'json.loads(state["info"]["tests"])')
    assert shown_tests is not None
    assert shown_tests.more_asked


@pytest.mark.parametrize(
    "shown", ["sum_up([0], 12) -> 12", "sum_up([1, 2], 3) -> 61\nsum_up([0], 12) -> 12", "[1, 2], 3, 6, [0], 12"]
)
def test_a_test_whose_input_or_result_is_not_shown_is_hidden(shown: str) -> None:
    assert find_shown_tests(calls(shown), 'json.loads(info["tests"])') is None


def test_pairs_of_a_field_that_names_no_tests_are_none() -> None:
    made = [replace(row, info={"edges": row.info["tests"]}) for row in calls("([1, 2], 3) 6 ([0], 12) 12")]  # type: ignore[index]
    assert find_shown_tests(made, 'info["edges"]') is None


def calls(shown: str) -> list[Row]:
    """Tasks whose tests are a JSON text of arguments and results."""
    tests = json.dumps([{"args": [[1, 2], 3], "result": 6}, {"args": [[0], 12], "result": 12}])
    prompt = {"role": "user", "content": f"Write `sum_up(xs, n)`.\n{shown}\nIt has to be correct for all inputs."}
    return [Row(n, str(n), (prompt,), None, {"tests": tests}, {}) for n in range(6)]


def test_other_tests_that_the_reward_reads_are_hidden_ones() -> None:
    both = [replace(row, fields={**row.fields, "extra": [[[9, 9, 9], 27], [[8, 8, 1], 17]]}) for row in rows(0)]
    assert find_shown_tests(both, f"{READS}\nself.data.extra") is None
