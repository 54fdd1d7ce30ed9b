"""Makes the tasks: a change to a workshop's database in words, the SQL that makes it, and the database that results.

`_MAKERS` is the part to replace; `changes` keeps splits apart and repeats nothing. A task depends on the generator that
its maker is handed and on nothing else.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from stateful_tools_template import database

LEVELS = ("easy", "medium", "hard")
"""easy: one row, named in the task. medium: rows to look up first. hard: several tables, or more than one statement."""
_OPEN = "SELECT id FROM loans WHERE status = 'open'"


@dataclass(frozen=True)
class Change:
    """One task. `statements` make the change, `goal` is the fingerprint of the database after them."""

    workshop: str
    level: str
    text: str
    statements: tuple[str, ...]
    goal: str


def changes(split: str, level: str, size: int, seed: int) -> Iterator[Change]:
    """`size` distinct tasks, the same for the same arguments; with level `all` the levels take turns.

    No workshop is in both splits. Raises ValueError where there are not that many tasks.
    """
    draw = random.Random(f"{seed}/{split}")
    levels = LEVELS if level == "all" else (level,)
    known: set[tuple[str, str]] = set()
    for _ in range(20 * size):
        if len(known) == size:
            return
        workshop, chosen = draw.choice(database.names(split)), levels[len(known) % len(levels)]
        db = database.database(workshop)
        before = database.fingerprint(db)
        text, statements = draw.choice(_MAKERS[chosen])(db, draw)
        changed = [db.execute(sql).rowcount for sql in statements]
        goal = database.fingerprint(db)
        if (workshop, text) not in known and goal != before and min(changed) >= _LEAST_ROWS[chosen]:
            known.add((workshop, text))
            yield Change(workshop, chosen, text, statements, goal)
    if len(known) < size:
        raise ValueError(f"there are only {len(known)} tasks of level {level}, and {size} are asked for")


_LEAST_ROWS = {"easy": 1, "medium": 2, "hard": 1}
"""Rows that every statement of a task must change."""


def _one(db: sqlite3.Connection, draw: random.Random, column: str, table: str) -> str:
    return str(draw.choice(db.execute(f"SELECT {column} FROM {table} ORDER BY id").fetchall())[0])


def _item_moves(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    item, shelf = _one(db, draw, "name", "items"), draw.choice(database.SHELVES)
    return f"The {item} now lies on shelf {shelf}.", (f"UPDATE items SET shelf = '{shelf}' WHERE name = '{item}'",)


def _member_moves(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    member, city = _one(db, draw, "name", "members"), draw.choice(database.CITIES)
    return f"{member} has moved to {city}.", (f"UPDATE members SET city = '{city}' WHERE name = '{member}'",)


def _all_returned(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    member = _one(db, draw, "name", "members")
    sql = (
        "UPDATE loans SET status = 'returned' WHERE status = 'open' "
        f"AND member_id = (SELECT id FROM members WHERE name = '{member}')"
    )
    return f"{member} has returned everything that is open, and nothing that is overdue.", (sql,)


def _old_loans(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    month = draw.randrange(3, 10)
    sql = f"UPDATE loans SET status = 'overdue' WHERE status = 'open' AND day < '2025-{month:02}-01'"
    return f"Every open loan from before 1.{month}.2025 is overdue now.", (sql,)


def _kind_moves(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    kind, new, old = draw.choice(database.KINDS), *draw.sample(database.SHELVES, 2)
    sql = f"UPDATE items SET shelf = '{new}' WHERE kind = '{kind}' AND shelf != '{old}'"
    return f"Every item of the kind {kind} now lies on shelf {new}, except those that stay on shelf {old}.", (sql,)


def _leaves(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    member, heir = _one(db, draw, "name", "members"), _one(db, draw, "name", "members")
    if member == heir:
        return "", ("DELETE FROM members WHERE id < 0",)
    ids = {name: f"(SELECT id FROM members WHERE name = '{name}')" for name in (member, heir)}
    return (
        f"{member} leaves, and {heir} takes over the loans that are open or overdue. Loans that are returned stay as "
        f"they are. Then delete {member} from the members.",
        (
            f"UPDATE loans SET member_id = {ids[heir]} WHERE member_id = {ids[member]} AND status != 'returned'",
            f"DELETE FROM members WHERE name = '{member}'",
        ),
    )


def _city_and_kind(db: sqlite3.Connection, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    city, kind = draw.choice(database.CITIES), draw.choice(database.KINDS)
    sql = (
        f"UPDATE loans SET status = 'returned' WHERE id IN ({_OPEN}) "
        f"AND member_id IN (SELECT id FROM members WHERE city = '{city}') "
        f"AND item_id IN (SELECT id FROM items WHERE kind = '{kind}')"
    )
    return f"Members from {city} have returned their open loans of items of the kind {kind}.", (sql,)


_MAKERS = {
    "easy": (_item_moves, _member_moves),
    "medium": (_all_returned, _old_loans, _kind_moves),
    "hard": (_leaves, _city_and_kind),
}
