"""The template stateful_tools: its database, its generator, and whole rollouts with a tool server of their own."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.loading import modules
from tests.templates.turns import Calls, earned, evaluate, said, talking

_LOADED = modules("stateful_tools", "database", "generator")
database, generator = _LOADED["database"], _LOADED["generator"]
SHOP = "Linden 2"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


def test_a_database_follows_from_its_name() -> None:
    first, again, other = (database.fingerprint(database.database(name)) for name in (SHOP, SHOP, "Linden 3"))
    assert first == again != other


def test_a_change_and_its_reversal_lead_back_whatever_the_order_of_rows() -> None:
    db = database.database(SHOP)
    before = database.fingerprint(db)
    row = db.execute("SELECT * FROM members WHERE id = 1").fetchone()
    database.run(db, "DELETE FROM members WHERE id = 1")
    assert database.fingerprint(db) != before
    database.run(db, f"INSERT INTO members VALUES {row}")
    assert database.fingerprint(db) == before


def test_results_are_shown_as_text_and_cut() -> None:
    db = database.database(SHOP)
    assert database.run(db, "SELECT count(*) AS n FROM loans") == "n\n30"
    assert database.run(db, "SELECT * FROM loans").endswith("and more rows")
    assert database.run(db, "UPDATE items SET shelf = 'A1'") == "12 rows changed"


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '/tmp/x' AS other",
        "PRAGMA writable_schema = 1",
        "DROP TABLE loans",
        "CREATE TABLE mine (x)",
        "BEGIN",
        "VACUUM INTO '/tmp/x'",
        "SELECT 1; SELECT 2",
        "SELECT nothing FROM nowhere",
        f"{ENDLESS} SELECT count(*) FROM n",
        f"{ENDLESS} INSERT INTO loans (day) SELECT hex(zeroblob(999)) FROM n",
    ],
)
def test_nothing_but_the_tables_can_be_reached_and_nothing_runs_on(sql: str) -> None:
    db = database.database(SHOP)
    before = database.fingerprint(db)
    with pytest.raises((sqlite3.Error, sqlite3.Warning)):
        database.run(db, sql)
    assert database.fingerprint(db) == before


@pytest.mark.parametrize("level", generator.LEVELS)
def test_the_statements_of_a_task_lead_from_its_beginning_to_its_goal(level: str) -> None:
    for change in generator.changes("train", level, 40, 0):
        db = database.database(change.workshop)
        before = database.fingerprint(db)
        for sql in change.statements:
            database.run(db, sql)
        assert before != change.goal == database.fingerprint(db), change


def test_the_same_arguments_give_the_same_distinct_tasks() -> None:
    first = list(generator.changes("train", "all", 60, 0))
    random.seed(5)
    assert first == list(generator.changes("train", "all", 60, 0))
    assert first != list(generator.changes("train", "all", 60, 1))
    assert len({(change.workshop, change.text) for change in first}) == 60


def test_no_workshop_is_in_both_splits() -> None:
    assert not set(database.names("train")) & set(database.names("eval"))


def test_too_many_tasks_are_refused_with_the_number_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "names", lambda split: [SHOP])
    with pytest.raises(ValueError, match=r"there are only \d+ tasks of level easy, and 120 are asked for"):
        list(generator.changes("eval", "easy", 120, 0))


@pytest.mark.slow
def test_every_rollout_changes_a_database_of_its_own_and_the_end_is_paid(tmp_path: Path) -> None:
    """The same task is solved, solved with a change beside it, and left alone, by three models in turn."""
    [change] = generator.changes("train", "hard", 1, 0)
    extra = "UPDATE members SET city = 'Ghent'"
    trials: dict[str, list[str]] = {
        "solved": list(change.statements),
        "more": [*change.statements, extra],
        "nothing": [],
    }
    ends: dict[str, Any] = {}
    for name, statements in trials.items():

        def plays(messages: list[dict[str, Any]], statements: list[str] = statements) -> str | Calls:
            made = sum(m["role"] == "tool" for m in messages)
            return [("run_sql", {"sql": statements[made]})] if made < len(statements) else "The change is made."

        with talking(plays) as model:
            [ends[name]] = evaluate(assembled("stateful_tools"), tmp_path / name, model.url, level="hard")
    assert {name: earned(trace) for name, trace in ends.items()} == {"solved": 1.0, "more": 0.0, "nothing": 0.0}
    assert "rows changed" in said(ends["solved"])[3][1]
    assert ends["more"]["metrics"]["statements"] == len(change.statements) + 1
