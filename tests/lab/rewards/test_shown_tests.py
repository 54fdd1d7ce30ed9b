"""Tests that a prompt promises to be hidden."""

from __future__ import annotations

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
    ("made", "source", "blocks"),
    [
        (rows(0), READS, True),
        (rows(50), READS, False),
        (rows(0, "These are all the tests."), READS, False),
        (rows(0), "for case in make_cases(self.data.name): ...", False),
    ],
)
def test_shown_tests_block_where_further_ones_are_promised_and_these_are_read(
    made: list[Row], source: str, blocks: bool
) -> None:
    trial = replace(sound(), shown_tests=find_shown_tests(made, source))
    assert (BLOCKS in found(trial)) is blocks


def test_other_tests_that_the_reward_reads_are_hidden_ones() -> None:
    both = [replace(row, fields={**row.fields, "extra": [[[9, 9, 9], 27], [[8, 8, 1], 17]]}) for row in rows(0)]
    assert find_shown_tests(both, f"{READS}\nself.data.extra") is None
