"""All rollouts share one database, which can only be read.

format: tool_call
generation: v1

A write is refused, so that every rollout finds the same rows.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

SYSTEM = "Answer the question from the table orders(id, city, pieces) with run_sql. Put the number in <answer></answer> tags."
CITIES = ("Ghent", "Leuven", "Mons", "Namur", "Halle", "Aalst", "Ieper", "Lier")
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)


def shop() -> sqlite3.Connection:
    draw = random.Random("orders")
    base = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    base.execute("CREATE TABLE orders (id INTEGER, city TEXT, pieces INTEGER)")
    for n in range(1, 400):
        base.execute("INSERT INTO orders VALUES (?, ?, ?)", (n, draw.choice(CITIES), draw.randrange(1, 9)))
    base.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
    return base


def questions() -> Iterator[tuple[str, str, str]]:
    """(question, query, answer)"""
    base = shop()
    for n in range(80):
        city, last = CITIES[n % 8], 150 + 25 * (n // 8)
        sql = f"SELECT sum(pieces) FROM orders WHERE city = '{city}' AND id <= {last}"
        yield f"How many pieces are in the orders 1 to {last} from {city}?", sql, str(base.execute(sql).fetchone()[0])


def tagged(reply: str) -> str | None:
    """The one answer tag of a reply, outside of thinking; None when there is none or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = {part.strip() for part in re.findall(r"<answer>([^<]*)</answer>", said)}
    return found.pop() if len(found) == 1 else None


class SqlReadsForAllData(vf.TaskData):
    sql: str
    answer: str


class SqlReadsForAllToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.base = shop()

    @vf.tool
    def run_sql(self, sql: str) -> str:
        """Run one SELECT on orders(id, city, pieces); 20 rows at most."""
        try:
            return "\n".join(" | ".join(map(str, row)) for row in self.base.execute(sql).fetchmany(20)) or "no rows"
        except sqlite3.Error as error:
            return f"error: {error}"


class SqlReadsForAllTask(vf.Task[SqlReadsForAllData]):
    def solution(self) -> list[Any]:
        call = {"name": "run_sql", "arguments": {"sql": self.data.sql}}
        return [{"role": "assistant", "tool_calls": [call]}, f"<answer>{self.data.answer}</answer>"]

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        worked = any(not str(message.content).startswith("error") for message in trace.tool_messages)
        return float(worked and tagged(trace.last_reply or "") == self.data.answer)


class SqlReadsForAllConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class SqlReadsForAllTaskset(vf.Taskset[SqlReadsForAllTask, SqlReadsForAllConfig]):
    @classmethod
    def toolsets(cls, config: SqlReadsForAllConfig) -> list[vf.Toolset]:
        return [SqlReadsForAllToolset(config.tools)]

    def load(self) -> Iterator[SqlReadsForAllTask]:
        for text, sql, answer in questions():
            yield SqlReadsForAllTask(SqlReadsForAllData(prompt=text, system_prompt=SYSTEM, sql=sql, answer=answer), self.config.task)


class SqlReadsForAllEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class SqlReadsForAllEnv(vf.SingleAgentEnv, vf.Env[SqlReadsForAllEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["SqlReadsForAllEnv", "SqlReadsForAllTaskset"]


if __name__ == "__main__":
    SqlReadsForAllToolset.run()
