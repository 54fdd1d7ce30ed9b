"""Questions with the queries that answer them, on three levels. A question's answer is what its query returns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from shop_orders import shops

LEVELS = ("easy", "medium", "hard")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_SOLD = "order_items i JOIN orders o ON o.id = i.order_id JOIN products p ON p.id = i.product_id"


@dataclass(frozen=True)
class Question:
    """One question about one shop. `sql` returns one row with one value: the answer."""

    shop: str
    level: str
    text: str
    sql: str
    answer: str


def questions(split: str, level: str, size: int, seed: int) -> Iterator[Question]:
    """`size` distinct questions, the same for the same arguments; with level `all`, the levels take turns."""
    draw = random.Random(f"{seed}/{split}")
    known: set[tuple[str, str]] = set()
    levels = LEVELS if level == "all" else (level,)
    while len(known) < size:
        shop = draw.choice(shops.names(split))
        chosen = levels[len(known) % len(levels)]
        text, sql = draw.choice(_KINDS[chosen])(draw)
        if (shop, text) in known:
            continue
        answer = _answer(shop, sql)
        if answer is None:
            continue
        known.add((shop, text))
        yield Question(shop, chosen, text, sql, answer)


def _answer(shop: str, sql: str) -> str | None:
    """What the query returns; None where that is nothing, zero, or one of several that are equally good."""
    _, rows = shops.query(shop, sql)
    if not rows or rows[0][0] in (None, 0):
        return None
    if len(rows) > 1 and len(rows[0]) > 1 and rows[0][1] == rows[1][1]:
        return None
    return str(rows[0][0])


def _orders_in_status(draw: random.Random) -> tuple[str, str]:
    status, month = draw.choice(("paid", "sent")), draw.randrange(10)
    sql = f"SELECT count(*) FROM orders WHERE status = '{status}' AND day LIKE '2025-{month + 1:02}-%'"
    return f"How many orders of {_MONTHS[month]} 2025 have the status {status}?", sql


def _dearest(draw: random.Random) -> tuple[str, str]:
    category = draw.choice(shops.CATEGORIES)
    sql = f"SELECT name, cents FROM products WHERE category = '{category}' ORDER BY cents DESC LIMIT 2"
    return f"Which product of the category {category} is the most expensive?", sql


def _pieces_of_category(draw: random.Random) -> tuple[str, str]:
    category, status = draw.choice(shops.CATEGORIES), draw.choice(("paid", "sent"))
    sql = f"SELECT sum(i.pieces) FROM {_SOLD} WHERE p.category = '{category}' AND o.status = '{status}'"
    return f"How many pieces of products of the category {category} are in orders with the status {status}?", sql


def _orders_of_city(draw: random.Random) -> tuple[str, str]:
    city, month = draw.choice(shops.CITIES), draw.randrange(10)
    sql = (
        "SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer_id "
        f"WHERE c.city = '{city}' AND o.day >= '2025-{month + 1:02}-01'"
    )
    return f"How many orders by customers from {city} were placed on or after 1 {_MONTHS[month]} 2025?", sql


def _revenue_of_city(draw: random.Random) -> tuple[str, str]:
    city = draw.choice(shops.CITIES)
    sql = (
        f"SELECT sum(i.pieces * p.cents) FROM {_SOLD} JOIN customers c ON c.id = o.customer_id "
        f"WHERE c.city = '{city}' AND o.status IN ('paid', 'sent')"
    )
    return f"For how many cents did customers from {city} buy, counting orders that are paid or sent?", sql


def _best_customer(draw: random.Random) -> tuple[str, str]:
    category = draw.choice(shops.CATEGORIES)
    sql = (
        f"SELECT c.name, sum(i.pieces) AS pieces FROM {_SOLD} JOIN customers c ON c.id = o.customer_id "
        f"WHERE p.category = '{category}' AND o.status != 'cancelled' GROUP BY c.id ORDER BY pieces DESC LIMIT 2"
    )
    return f"Which customer ordered the most pieces of the category {category}, leaving out cancelled orders?", sql


_KINDS = {
    "easy": (_orders_in_status, _dearest),
    "medium": (_pieces_of_category, _orders_of_city),
    "hard": (_revenue_of_city, _best_customer),
}
