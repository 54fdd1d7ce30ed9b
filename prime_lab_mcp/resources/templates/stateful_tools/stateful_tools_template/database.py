"""The database of one rollout: made from a name and nothing else, changed by SQL, and compared by a fingerprint.

The name is the seed, so that the taskset and the tool server, which are different processes, make the same database.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3

SCHEMA = """\
CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, shelf TEXT);
CREATE TABLE loans (id INTEGER PRIMARY KEY, member_id INTEGER, item_id INTEGER, day TEXT, status TEXT);
"""
TABLES = ("items", "loans", "members")
CITIES = ("Ghent", "Leuven", "Bruges", "Namur")
KINDS = ("saw", "drill", "ladder", "sander")
SHELVES = ("A1", "A2", "B1", "B2", "C1")
STATUSES = ("open", "open", "returned", "overdue")
_PEOPLE = ("Ada", "Bram", "Cleo", "Daan", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Karim", "Lotte")
_LOOKS = ("red", "blue", "small", "long", "old", "new")
_WORKSHOPS = ("Linden", "Harbour", "Market", "Station", "Canal", "Tower", "Mill", "Orchard", "Abbey", "Bridge")
_STEPS = 2_000_000
"""Most steps of SQLite's virtual machine for one statement: about a second."""
_PAGES = 256
"""Most pages of the database: one megabyte."""
SHOWN = 20
"""Most rows of one result."""
_ALLOWED = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
    )
)


def names(split: str) -> list[str]:
    """The workshops of a split. No workshop is in both."""
    workshops = [f"{name} {number}" for name in _WORKSHOPS for number in (1, 2, 3, 4)]
    held_out = workshops[::5]
    return held_out if split == "eval" else [name for name in workshops if name not in held_out]


def database(name: str) -> sqlite3.Connection:
    """A new database of the workshop `name`, in memory. Its tables can be read and changed, and nothing else."""
    draw = random.Random(f"workshop/{name}")
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(f"PRAGMA max_page_count = {_PAGES}; {SCHEMA}")
    people = draw.sample(_PEOPLE, 9)
    items = draw.sample([f"{look} {kind}" for look in _LOOKS for kind in KINDS], 12)
    db.executemany(
        "INSERT INTO members VALUES (?, ?, ?)", [(n, person, draw.choice(CITIES)) for n, person in enumerate(people, 1)]
    )
    db.executemany(
        "INSERT INTO items VALUES (?, ?, ?, ?)",
        [(n, item, item.split()[1], draw.choice(SHELVES)) for n, item in enumerate(items, 1)],
    )
    for loan in range(1, 31):
        day = f"2025-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
        row = (loan, draw.randrange(1, 10), draw.randrange(1, 13), day, draw.choice(STATUSES))
        db.execute("INSERT INTO loans VALUES (?, ?, ?, ?, ?)", row)
    db.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
    return db


def run(db: sqlite3.Connection, sql: str) -> str:
    """The result of one statement as text. Raises sqlite3.Error, also for a statement that takes long."""
    db.set_progress_handler(lambda: 1, _STEPS)
    try:
        done = db.execute(sql)
        if done.description is None:
            return f"{max(done.rowcount, 0)} rows changed"
        rows = done.fetchmany(SHOWN + 1)
    finally:
        db.set_progress_handler(None, 0)
    lines = [" | ".join(column[0] for column in done.description)]
    lines += [" | ".join(map(str, row)) for row in rows[:SHOWN]]
    return "\n".join([*lines, "and more rows"] if len(rows) > SHOWN else lines)


def fingerprint(db: sqlite3.Connection) -> str:
    """A text that two databases share only if all their tables hold the same rows, whatever led to them."""
    digest = hashlib.sha256()
    for table in TABLES:
        for row in db.execute(f"SELECT * FROM {table} ORDER BY id"):
            digest.update(repr((table, row)).encode())
    return digest.hexdigest()
