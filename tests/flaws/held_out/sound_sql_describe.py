"""Questions about a generated database; the tool that lists the tables says how many rows they have.

format: tool_call
generation: v1

What `describe` prints answers no question: the query has to be written.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf


SYSTEM = "Answer the question from the shop's database, which the tools query. Put the number in <answer></answer> tags."


CITIES = ("Ghent", "Leuven", "Mons", "Namur")
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)


def shop(number: int) -> sqlite3.Connection:
    """The database of one shop, made from its number."""
    draw = random.Random(f"shop {number}")
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute("CREATE TABLE orders (id INTEGER, city TEXT, pieces INTEGER, status TEXT)")
    for n in range(1, draw.randrange(90, 160)):
        row = (n, draw.choice(CITIES), draw.randrange(1, 9), draw.choice(("paid", "sent", "open")))
        base.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", row)
    base.commit()
    base.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
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


def tagged(reply: str) -> str | None:
    """The one answer tag of a reply, outside of thinking; None when there is none or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = {part.strip() for part in re.findall(r"<answer>([^<]*)</answer>", said)}
    return found.pop() if len(found) == 1 else None


class SoundSqlDescribeData(vf.TaskData):
    shop: int
    sql: str
    answer: str


class SoundSqlDescribeToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.bases = {number: shop(number) for number, *_ in questions()}
        self.rows = {n: base.execute("SELECT count(*) FROM orders").fetchone()[0] for n, base in self.bases.items()}

    @vf.tool
    def describe(self, number: int) -> str:
        """The tables of the database of a shop, by its number."""
        if number not in self.bases:
            return "error: there is no such shop"
        schema = self.bases[number].execute("SELECT sql FROM sqlite_master").fetchone()[0]
        return f"{schema};\n-- {self.rows[number]} rows"

    @vf.tool
    def run_sql(self, number: int, sql: str) -> str:
        """Run one SELECT (SQLite) on the database of a shop, by its number; 20 rows at most."""
        try:
            return "\n".join(" | ".join(map(str, row)) for row in self.bases[number].execute(sql).fetchmany(20)) or "no rows"
        except (KeyError, sqlite3.Error) as error:
            return f"error: {error}"


class SoundSqlDescribeTask(vf.Task[SoundSqlDescribeData]):
    def solution(self) -> list[dict[str, Any]]:
        call = {"name": "run_sql", "arguments": {"number": self.data.shop, "sql": self.data.sql}}
        return [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": f"<answer>{self.data.answer}</answer>"}]

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        worked = any(not str(message.content).startswith("error") for message in trace.tool_messages)
        return float(worked and tagged(trace.last_reply or "") == self.data.answer)


class SoundSqlDescribeConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class SoundSqlDescribeTaskset(vf.Taskset[SoundSqlDescribeTask, SoundSqlDescribeConfig]):
    @classmethod
    def toolsets(cls, config: SoundSqlDescribeConfig) -> list[vf.Toolset]:
        return [SoundSqlDescribeToolset(config.tools)]

    def load(self) -> Iterator[SoundSqlDescribeTask]:
        for number, text, sql, answer in questions():
            data = SoundSqlDescribeData(prompt=f"Shop {number}. {text}", system_prompt=SYSTEM, shop=number, sql=sql, answer=answer)
            yield SoundSqlDescribeTask(data, self.config.task)


class SoundSqlDescribeEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class SoundSqlDescribeEnv(vf.SingleAgentEnv, vf.Env[SoundSqlDescribeEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["SoundSqlDescribeEnv", "SoundSqlDescribeTaskset"]


if __name__ == "__main__":
    SoundSqlDescribeToolset.run()
