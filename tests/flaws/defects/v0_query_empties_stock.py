"""The reply is run first, and the reference query on the same base.

format: code
generation: v0
finding: reward-hackable, blocker

`DELETE FROM stock` returns nothing, and so does the reference query afterwards.
"""

import re
import sqlite3
from datasets import Dataset
import verifiers as vf
SYSTEM = "The table is stock(item, shelf, pieces). Answer with one SQLite query in a ```sql block."
ITEMS = ["bolt", "nut", "washer", "hinge", "screw", "nail", "hook", "bracket", "rivet", "clamp"]
def stock():
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE stock(item TEXT, shelf INTEGER, pieces INTEGER)")
    base.executemany("INSERT INTO stock VALUES (?, ?, ?)", [(item, 1 + n % 4, 3 + 7 * n % 11 + k) for n, item in enumerate(ITEMS) for k in range(3)])
    return base
def rows(completion, answer, **kwargs):
    found = re.findall(r"```sql\n(.*?)```", completion[-1]["content"], re.S)
    if not found:
        return 0.0
    base = stock()
    try:
        mine = base.execute(found[-1]).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        return 0.0
    return float(mine == base.execute(answer).fetchall())
def load_environment(**kwargs):
    asked = []
    for n, item in enumerate(ITEMS):
        asked.append((f"On which shelves does the item {item} lie? Each once, ascending.", f"SELECT DISTINCT shelf FROM stock WHERE item = '{item}' ORDER BY shelf"))
        asked.append((f"List the pieces of each entry of {item}, the largest first.", f"SELECT pieces FROM stock WHERE item = '{item}' ORDER BY pieces DESC"))
        for shelf in range(1, 5):
            asked.append((f"Which items of shelf {shelf} have an entry of more than {n + 2} pieces? Each once, by name.", f"SELECT DISTINCT item FROM stock WHERE shelf = {shelf} AND pieces > {n + 2} ORDER BY item"))
    return vf.SingleTurnEnv(dataset=Dataset.from_list([{"question": q, "answer": a} for q, a in asked]), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[rows], weights=[1.0]), **kwargs)
