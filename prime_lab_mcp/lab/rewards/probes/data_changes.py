"""Builds replies that change the data instead of asking about them: SQL statements that delete, update or end a
transaction.

A reward may run the reply and then compute what is right on the same data. A reply that empties the tables then returns
nothing, and so does the reference query. No such statement answers a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family

QUERY = re.compile(r"(?is)\s*(?:select|with)\b.*\bfrom\b")
_TABLES = re.compile(r"(?i)\b(?:from|join)\s+[\"`\[]?([A-Za-z_]\w*)")
NO_ROWS = "SELECT 1 WHERE 1 = 0"
_MOST_TABLES = 4
_MOST_TASKS = 6
_HELD = (
    re.compile(r"```\w*[ \t]*\n(?P<query>.*?)```", re.S),
    re.compile(r"<(?P<tag>\w+)>(?P<query>.*?)</(?P=tag)>", re.S),
)
"""Where a reply has its query: in its last fence or tag."""


def is_query(text: str) -> bool:
    """Whether a text is an SQL query that reads tables."""
    return QUERY.match(text) is not None


def data_changes(query: str) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for statements that change the tables of a query, and for a query without rows."""
    tables = tables_of(query)
    for number, table in enumerate(tables):
        which = "the first table" if number == 0 else "another table"
        yield f"deletes all rows of {which}", f"DELETE FROM {table}"
        if number == 0:
            yield "empties a table, with a query behind", f"DELETE FROM {table}; SELECT * FROM {table}"
            yield f"drops {which}", f"DROP TABLE {table}"
    if len(tables) > 1:
        yield "deletes all rows of every table", "; ".join(f"DELETE FROM {table}" for table in tables)
    yield "returns no rows", NO_ROWS


def change_probes(replies: Mapping[int, str]) -> list[Probe]:
    """Return replies that change the data, for right replies (a text for each task) that are queries."""
    probes: list[Probe] = []
    tasks = 0
    for row, text in replies.items():
        before, query, after = around_query(text)
        if not is_query(query) or tasks >= _MOST_TASKS:
            continue
        tasks += 1
        for number, (variant, statement) in enumerate(data_changes(query)):
            changed = f"{before}{statement}{after}"
            probes.append(Draft(Family.CHANGES_DATA, changed, variant).probe(f"data/{row}/{number}", row))
    return probes


def tables_of(query: str) -> list[str]:
    """Return the tables that a query reads."""
    return list(dict.fromkeys(table for table in _TABLES.findall(query) if table.lower() != "select"))[:_MOST_TABLES]


def around_query(text: str) -> tuple[str, str, str]:
    """Return what stands before the query of a reply, the query, and what stands behind it."""
    for pattern in _HELD:
        found = list(pattern.finditer(text))
        if found:
            start, end = found[-1].span("query")
            inner = text[start:end]
            left = len(inner) - len(inner.lstrip())
            return text[: start + left], inner.strip(), inner[len(inner.rstrip()) :] + text[end:]
    return "", text.strip(), ""
