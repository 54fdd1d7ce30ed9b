"""Shops: databases of customers, products and orders, generated from a shop's name and nothing else.

The name is the seed, so every process makes the same shop. The databases live in memory and are only read.
"""

from __future__ import annotations

import random
import sqlite3
from functools import cache

SCHEMA = """\
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, cents INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, day TEXT, status TEXT);
CREATE TABLE order_items (order_id INTEGER, product_id INTEGER, pieces INTEGER);
"""
CITIES = ("Ghent", "Leuven", "Bruges", "Namur", "Mons", "Ostend")
CATEGORIES = ("kitchen", "garden", "office", "bath")
STATUSES = ("paid", "paid", "paid", "sent", "sent", "returned", "cancelled")
_FIRST = ("Ada", "Bram", "Cleo", "Daan", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Karim", "Lotte")
_LAST = ("Aerts", "Bogaert", "Claes", "Dewit", "Engels", "Fierens", "Goossens", "Hermans")
_THINGS = ("lamp", "tray", "stool", "shelf", "basket", "mirror", "bench", "clock")
_LOOKS = ("oak", "steel", "blue", "small", "folding")
_SHOPS = ("Linden", "Harbour", "Market", "Station", "Canal", "Tower", "Mill", "Orchard", "Abbey", "Bridge")
_TABLES = frozenset({"customers", "products", "orders", "order_items"})
_STEPS = 2_000_000
"""Most steps of SQLite's virtual machine for one query: about a second."""
SHOWN = 20
"""Most rows of one result."""


def names(split: str) -> list[str]:
    """The shops of a split. No shop is in both."""
    shops = [f"{name} {number}" for name in _SHOPS for number in (1, 2, 3, 4)]
    held_out = shops[::5]
    return held_out if split == "eval" else [shop for shop in shops if shop not in held_out]


@cache
def database(shop: str) -> sqlite3.Connection:
    """The database of one shop, read-only from now on."""
    draw = random.Random(f"shop-orders/{shop}")
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.executescript(SCHEMA)
    people = draw.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 30)
    things = draw.sample([f"{look} {thing}" for look in _LOOKS for thing in _THINGS], 16)
    db.executemany(
        "INSERT INTO customers VALUES (?, ?, ?)", [(n, p, draw.choice(CITIES)) for n, p in enumerate(people, 1)]
    )
    db.executemany(
        "INSERT INTO products VALUES (?, ?, ?, ?)",
        [(n, t, draw.choice(CATEGORIES), draw.randrange(250, 9900, 50)) for n, t in enumerate(things, 1)],
    )
    for order in range(1, draw.randrange(150, 260)):
        day = f"2025-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
        db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", (order, draw.randrange(1, 31), day, draw.choice(STATUSES)))
        for product in draw.sample(range(1, 17), draw.randrange(1, 5)):
            db.execute("INSERT INTO order_items VALUES (?, ?, ?)", (order, product, draw.randrange(1, 9)))
    db.commit()
    db.set_authorizer(_only_reads)
    return db


def _only_reads(action: int, table: str | None, *_: object) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_READ and table in _TABLES else sqlite3.SQLITE_DENY


def query(shop: str, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns and rows of one query; at most `SHOWN` + 1 rows.

    Raises sqlite3.Error, also for a query that takes long.
    """
    db = database(shop)
    db.set_progress_handler(lambda: 1, _STEPS)
    try:
        found = db.execute(sql)
        if found.description is None:
            raise sqlite3.OperationalError("only SELECT returns rows")
        return [column[0] for column in found.description], found.fetchmany(SHOWN + 1)
    finally:
        db.set_progress_handler(None, 0)
