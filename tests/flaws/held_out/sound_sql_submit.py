"""The answer is handed in through a tool, which compares each one that it is given.

format: tool_call
generation: v1

The server of the tools serves all rollouts and keeps nothing of them.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf


SYSTEM = "Answer the question from the shop's database with run_sql, then hand the number in with submit, by the number of the shop."


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


class SoundSqlSubmitData(vf.TaskData):
    shop: int
    sql: str
    answer: str


class SoundSqlSubmitToolset(vf.Toolset[vf.SharedToolsetConfig]):
    """One server for all rollouts."""

    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.bases = {number: shop(number) for number, *_ in questions()}
        self.answers = {number: answer for number, _, _, answer in questions()}
        self.handed_in = 0

    @vf.tool
    def run_sql(self, shop: int, sql: str) -> str:
        """Run one SELECT (SQLite) on orders(id, city, pieces, status) of a shop, by its number; 20 rows at most."""
        try:
            return "\n".join(" | ".join(map(str, row)) for row in self.bases[shop].execute(sql).fetchmany(20)) or "no rows"
        except (KeyError, sqlite3.Error) as error:
            return f"error: {error}"

    @vf.tool
    def submit(self, shop: int, answer: str) -> str:
        """Hand in the answer of a shop's question, in digits."""
        self.handed_in += 1
        return f"accepted: shop {shop}" if self.answers.get(shop) == answer.strip() else "not accepted"


class SoundSqlSubmitTask(vf.Task[SoundSqlSubmitData]):
    def solution(self) -> list[dict[str, Any]]:
        look = {"name": "run_sql", "arguments": {"shop": self.data.shop, "sql": self.data.sql}}
        hand_in = {"name": "submit", "arguments": {"shop": self.data.shop, "answer": self.data.answer}}
        return [
            {"role": "assistant", "tool_calls": [look]}, {"role": "assistant", "tool_calls": [hand_in]},
            {"role": "assistant", "content": "Done."},
        ]

    @vf.reward(weight=1.0)
    async def accepted(self, trace: vf.Trace) -> float:
        last = [str(message.content) for message in trace.tool_messages][-1:]
        return float(last == [f"accepted: shop {self.data.shop}"])


class SoundSqlSubmitConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class SoundSqlSubmitTaskset(vf.Taskset[SoundSqlSubmitTask, SoundSqlSubmitConfig]):
    @classmethod
    def toolsets(cls, config: SoundSqlSubmitConfig) -> list[vf.Toolset]:
        return [SoundSqlSubmitToolset(config.tools)]

    def load(self) -> Iterator[SoundSqlSubmitTask]:
        for number, text, sql, answer in questions():
            data = SoundSqlSubmitData(prompt=f"Shop {number}. {text}", system_prompt=SYSTEM, shop=number, sql=sql, answer=answer)
            yield SoundSqlSubmitTask(data, self.config.task)


class SoundSqlSubmitEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class SoundSqlSubmitEnv(vf.SingleAgentEnv, vf.Env[SoundSqlSubmitEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["SoundSqlSubmitEnv", "SoundSqlSubmitTaskset"]


if __name__ == "__main__":
    SoundSqlSubmitToolset.run()
