"""Questions about the loans of a library: the reference query runs on the database that the model can write to.

format: code
generation: v0
finding: reward-hackable, blocker

A model that deletes all rows with its tool and then gives a query that finds nothing is right on every task.
"""

import re
import sqlite3

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "The tables are books(id, title, shelf, year) and loans(id, book, reader, days). Look at them with run_sql, then give "
    "one SELECT in <sql></sql>."
)
READERS = ("Ines", "Otto", "Priya", "Sven", "Tariq")
SHELVES = ("A1", "A2", "B1", "B2", "C1")


def library() -> sqlite3.Connection:
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute("CREATE TABLE books (id INTEGER, title TEXT, shelf TEXT, year INTEGER)")
    base.execute("CREATE TABLE loans (id INTEGER, book INTEGER, reader TEXT, days INTEGER)")
    base.executemany(
        "INSERT INTO books VALUES (?, ?, ?, ?)", [(n, f"Volume {n}", SHELVES[n % 5], 1950 + 3 * n % 70) for n in range(40)]
    )
    base.executemany(
        "INSERT INTO loans VALUES (?, ?, ?, ?)", [(n, n * 7 % 40, READERS[n % 5], 3 + n * 5 % 28) for n in range(90)]
    )
    base.commit()
    return base


def questions() -> list[tuple[str, str]]:
    found = [(f"Which titles stand on shelf {s}?", f"SELECT title FROM books WHERE shelf = '{s}'") for s in SHELVES]
    found += [
        (f"Which books, by number, did {r} borrow?", f"SELECT DISTINCT book FROM loans WHERE reader = '{r}'") for r in READERS
    ]
    found += [
        (f"Which titles appeared after {y}?", f"SELECT title FROM books WHERE year > {y}") for y in range(1955, 2000, 2)
    ]
    found += [
        (f"Which readers kept a book for more than {d} days?", f"SELECT DISTINCT reader FROM loans WHERE days > {d}")
        for d in range(5, 30)
    ]
    return found


def run_sql(query: str, base: sqlite3.Connection) -> str:
    """Run SQL and return up to 30 rows.

    Args:
        query: the SQL to run
    """
    try:
        return "\n".join(" | ".join(map(str, row)) for row in base.execute(query).fetchmany(30)) or "no rows"
    except sqlite3.Error as error:
        return f"error: {error}"


class LibraryEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], max_turns=10, **kwargs)
        self.add_tool(run_sql, args_to_skip=["base"])

    async def setup_state(self, state, **kwargs):
        state["base"] = library()
        return state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "base": state["base"]}


def same_rows(completion, answer, state, **kwargs) -> float:
    said = re.findall(r"<sql>(.*?)</sql>", str(completion[-1]["content"]), re.S)
    if not said or not re.match(r"\s*select\b", said[-1], re.I):
        return 0.0
    try:
        mine = state["base"].execute(said[-1]).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        return 0.0
    return float(sorted(map(repr, mine)) == sorted(map(repr, state["base"].execute(answer).fetchall())))


def load_environment(**kwargs) -> vf.Environment:
    dataset = Dataset.from_list([{"question": question, "answer": query} for question, query in questions()])
    return LibraryEnv(dataset=dataset, system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[same_rows], weights=[1.0]), **kwargs)
