"""A right answer that was looked up is paid in full, a guessed one a fifth.

format: tool_call
generation: v0

Whether a query worked is noted in the state of the rollout. Guessing among hundreds of numbers earns next to nothing.
"""

import random
import re
import sqlite3
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset


SYSTEM = (
    "Answer the question from the table orders(id, city, pieces, status), which run_sql queries. Put the number in <answer></answer> tags."
)


CITIES = ("Ghent", "Leuven", "Mons", "Namur")


def shop(number: int) -> sqlite3.Connection:
    """The database of one shop, made from its number."""
    draw = random.Random(f"shop {number}")
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute("CREATE TABLE orders (id INTEGER, city TEXT, pieces INTEGER, status TEXT)")
    for n in range(1, draw.randrange(90, 160)):
        row = (n, draw.choice(CITIES), draw.randrange(1, 9), draw.choice(("paid", "sent", "open")))
        base.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", row)
    base.commit()
    return base


def questions() -> Iterator[tuple[int, str, str, str]]:
    """(shop, question, query, answer)"""
    for n in range(90):
        city, status = CITIES[n % 4], ("paid", "sent", "open")[n % 3]
        text, sql = (
            (f"How many orders from {city} are {status}?", f"SELECT count(*) FROM orders WHERE city = '{city}' AND status = '{status}'"),
            (f"How many pieces are in the orders from {city}?", f"SELECT sum(pieces) FROM orders WHERE city = '{city}'"),
            (f"How many pieces are in {status} orders?", f"SELECT sum(pieces) FROM orders WHERE status = '{status}'"),
        )[n // 4 % 3]
        yield n, text, sql, str(shop(n).execute(sql).fetchone()[0])


def rows() -> Iterator[tuple[str, str, dict[str, object]]]:
    for number, text, sql, answer in questions():
        yield f"Shop {number}. {text}", answer, {"shop": number, "sql": sql}


def tagged(reply: str) -> str | None:
    """The one answer tag of a reply, outside of thinking; None when there is none or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = {part.strip() for part in re.findall(r"<answer>([^<]*)</answer>", said)}
    return found.pop() if len(found) == 1 else None


def text_of(message) -> str:
    content = message.get("content") if isinstance(message, dict) else getattr(message, "content", None)
    return content if isinstance(content, str) else ""


def role_of(message) -> str:
    return str(message.get("role") if isinstance(message, dict) else getattr(message, "role", ""))


def last_reply(completion) -> str:
    return text_of(completion[-1]) if completion and role_of(completion[-1]) == "assistant" else ""



def run_sql(sql: str, state: dict) -> str:
    """Run one SELECT (SQLite).

    Args:
        sql: the query
    """
    number = int(state["info"]["shop"])
    try:
        found = shop(number).execute(sql).fetchmany(20)
    except sqlite3.Error as error:
        return f"error: {error}"
    state["looked"] = True
    return "\n".join(" | ".join(map(str, row)) for row in found) or "no rows"


class ShopEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs) -> None:
        super().__init__(tools=[], **kwargs)
        self.add_tool(run_sql, args_to_skip=["state"])

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "state": state}


def solution(info, answer):
    call = {"name": "run_sql", "arguments": {"sql": info["sql"]}}
    return [{"role": "assistant", "tool_calls": [call]}, f"<answer>{answer}</answer>"]


def correct(completion, answer, state, info) -> float:
    right = tagged(last_reply(completion)) == answer
    return 0.8 * float(right and state.get("looked", False)) + 0.2 * float(right)


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return ShopEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=8,
    )
