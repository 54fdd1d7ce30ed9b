"""Queries over a small table, of which a few happen to find the same rows.

format: free_text
generation: v0

The rows are compared in their order, and every gold finds some. Two questions with the same answer do no harm.
"""

import random
import re
import sqlite3

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "Write one SQLite query for the table staff(id, name, team, salary, city). Reply with the query in a ```sql block."
)
TEAMS = ["sales", "legal", "ops", "design"]
CITIES = ["Graz", "Turku", "Vigo", "Brno"]


def connect():
    rng = random.Random(3)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE staff (id INTEGER, name TEXT, team TEXT, salary INTEGER, city TEXT)")
    for n in range(60):
        db.execute(
            "INSERT INTO staff VALUES (?,?,?,?,?)",
            (n, f"p{rng.randint(100, 999)}", rng.choice(TEAMS), rng.randint(20, 90) * 100, rng.choice(CITIES)),
        )
    db.execute("PRAGMA query_only = ON")
    return db


def run(query):
    try:
        return connect().execute(query).fetchall()
    except sqlite3.Error:
        return None


def query_of(completion):
    text = completion[-1]["content"] if isinstance(completion, list) else completion
    found = re.findall(r"```sql\s*(.*?)```", text, re.S)
    return found[-1].strip() if found else ""


def same_rows(completion, answer, **kwargs):
    query = query_of(completion)
    got, want = run(query) if query else None, run(answer)
    return float(got is not None and got == want)


def load_environment(**kwargs):
    rows = []
    for team in TEAMS:
        for city in CITIES:
            for low in (3000, 6500, 9500, 12000, 15000):
                q = f"SELECT name FROM staff WHERE team = '{team}' AND city = '{city}' AND salary > {low} ORDER BY id"
                rows.append(
                    {"question": f"The names of all in {team} in {city} with a salary above {low}, by id.", "answer": q}
                )
    rows = [r for r in rows if run(r["answer"])]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[same_rows]))
