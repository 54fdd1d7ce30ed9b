"""Replies that change the data instead of asking about them."""

from __future__ import annotations

import sqlite3

import pytest

from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.data_changes import change_probes
from prime_lab_mcp.lab.rewards.probes.families import Family
from tests.lab.rewards.rules.trials import found, scored, sound

QUERY = "SELECT title FROM books JOIN loans ON id = book WHERE weeks < 5"
TABLES = (
    "CREATE TABLE books(id, title); CREATE TABLE loans(book, weeks);"
    "INSERT INTO books VALUES (1, 'Emma'); INSERT INTO loans VALUES (1, 3);"
)


@pytest.mark.parametrize("around", ["I join.\n```sql\n{}\n```\nDone.", "<sql>{}</sql>", "{}"])
def test_the_query_of_a_reply_is_replaced_where_it_stands(around: str) -> None:
    made = [p.completion for p in change_probes({0: around.format(QUERY)})]
    assert around.format("DELETE FROM books") in made
    assert around.format("DELETE FROM loans") in made
    assert around.format("DROP TABLE books") in made


def test_replies_without_a_query_are_left_alone() -> None:
    assert change_probes({0: "```sql\nDELETE FROM books\n```", 1: "From A select B."}) == []


@pytest.mark.parametrize("own_copy", [True, False])
def test_a_reward_that_computes_what_is_right_on_changed_data_blocks(own_copy: bool) -> None:
    def reward(reply: str) -> float:
        mine, theirs = (sqlite3.connect(":memory:") for _ in range(2))
        for base in (mine, theirs):
            base.executescript(TABLES)
        try:
            rows = mine.execute(reply).fetchall()
            return float(rows == (theirs if own_copy else mine).execute(QUERY).fetchall())
        except (sqlite3.Error, sqlite3.Warning):
            return 0.0

    probes = change_probes(dict.fromkeys(range(5), QUERY))
    trial = sound(*(ScoredProbe(p, scored(reward(p.completion))) for p in probes))
    assert (("reward-hackable", "blocker") in found(trial)) is not own_copy
    assert all(p.family is Family.CHANGES_DATA for p in probes)
