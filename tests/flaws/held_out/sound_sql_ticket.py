"""The head of every prompt holds numbers that have nothing to do with the answer.

format: tool_call
generation: v1

Copying a number of the head is wrong in every task.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf


SYSTEM = "Answer the question from the shop's database with run_sql, by the number of the shop. Put the number in <answer></answer> tags."


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


def tagged(reply: str) -> str | None:
    """The one answer tag of a reply, outside of thinking; None when there is none or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = {part.strip() for part in re.findall(r"<answer>([^<]*)</answer>", said)}
    return found.pop() if len(found) == 1 else None


class SoundSqlTicketData(vf.TaskData):
    shop: int
    sql: str
    answer: str


class SoundSqlTicketToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    @vf.tool
    def run_sql(self, number: int, sql: str) -> str:
        """Run one SELECT (SQLite) on orders(id, city, pieces, status) of a shop, by its number; 20 rows at most."""
        try:
            return "\n".join(" | ".join(map(str, row)) for row in shop(number).execute(sql).fetchmany(20)) or "no rows"
        except sqlite3.Error as error:
            return f"error: {error}"


class SoundSqlTicketTask(vf.Task[SoundSqlTicketData]):
    def solution(self) -> list[dict[str, Any]]:
        call = {"name": "run_sql", "arguments": {"number": self.data.shop, "sql": self.data.sql}}
        return [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": f"<answer>{self.data.answer}</answer>"}]

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        worked = any(not str(message.content).startswith("error") for message in trace.tool_messages)
        return float(worked and tagged(trace.last_reply or "") == self.data.answer)


class SoundSqlTicketConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class SoundSqlTicketTaskset(vf.Taskset[SoundSqlTicketTask, SoundSqlTicketConfig]):
    @classmethod
    def toolsets(cls, config: SoundSqlTicketConfig) -> list[vf.Toolset]:
        return [SoundSqlTicketToolset(config.tools)]

    def load(self) -> Iterator[SoundSqlTicketTask]:
        for number, text, sql, answer in questions():
            reference = random.Random(f"ref {number}").randrange(300, 900)
            prompt = f"ticket {1000 + number} | shop {number} | ref {reference}\n{text}"
            data = SoundSqlTicketData(prompt=prompt, system_prompt=SYSTEM, shop=number, sql=sql, answer=answer)
            yield SoundSqlTicketTask(data, self.config.task)


class SoundSqlTicketEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class SoundSqlTicketEnv(vf.SingleAgentEnv, vf.Env[SoundSqlTicketEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["SoundSqlTicketEnv", "SoundSqlTicketTaskset"]


if __name__ == "__main__":
    SoundSqlTicketToolset.run()
