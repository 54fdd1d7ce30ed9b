"""Tasks, reward and the way they are run: one question, queries, one answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from shop_orders import shops
from shop_orders.answers import FORMAT, right
from shop_orders.questions import questions
from shop_orders.tools import ShopOrdersToolset

INSTRUCTION = (
    "You answer questions about a shop from its database, which you query with the tool run_sql. Prices are in cents. "
    f"These are the tables of every shop:\n\n{shops.SCHEMA}\n"
    "The status of an order is paid, sent, returned or cancelled; days are texts such as 2025-03-31."
)
MAX_TURNS = 8
"""Model calls in one rollout. One that needs more ends without an answer and counts as truncated."""


class ShopOrdersData(vf.TaskData):
    """One question. `sql` is the query that answers it; only the solution uses it."""

    shop: str
    level: str
    answer: str
    sql: str


class ShopOrdersTask(vf.Task[ShopOrdersData]):
    """Pays for the right answer that was looked up."""

    def solution(self) -> list[dict[str, Any]]:
        """How the task is solved: the query, then the answer. `test_reward` plays this with the real tool."""
        call = {"name": "run_sql", "arguments": {"shop": self.data.shop, "sql": self.data.sql}}
        return [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "assistant", "content": f"<answer>{self.data.answer}</answer>"},
        ]

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the last reply is right and a query worked before it: a lucky guess is worth nothing."""
        return float(right(trace.last_reply or "", self.data.answer) and bool(_results(trace)))

    @vf.metric
    async def queries(self, trace: vf.Trace) -> float:
        """How many queries worked. As a reward it would teach to query for the sake of it."""
        return float(len(_results(trace)))

    @vf.metric
    async def failed_queries(self, trace: vf.Trace) -> float:
        """How many calls came back with an error."""
        return float(len(trace.tool_messages) - len(_results(trace)))

    @vf.metric
    async def guessed(self, trace: vf.Trace) -> float:
        """1 when the right answer was given although no query had worked."""
        return float(right(trace.last_reply or "", self.data.answer) and not _results(trace))


def _results(trace: vf.Trace) -> list[str]:
    texts = [message.content for message in trace.tool_messages]
    return [text for text in texts if isinstance(text, str) and not text.lower().startswith("error")]


class ShopOrdersConfig(vf.TasksetConfig):
    """Which questions, how many, and where the tool runs."""

    split: Literal["train", "eval"] = "train"
    level: Literal["all", "easy", "medium", "hard"] = "all"
    size: int = 240
    seed: int = 0
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class ShopOrdersTaskset(vf.Taskset[ShopOrdersTask, ShopOrdersConfig]):
    """Generated questions. The shops of the two splits differ."""

    @classmethod
    def toolsets(cls, config: ShopOrdersConfig) -> list[vf.Toolset]:
        """One server for all rollouts; the tool keeps nothing between calls."""
        return [ShopOrdersToolset(config.tools)]

    def load(self) -> Iterator[ShopOrdersTask]:
        for found in questions(self.config.split, self.config.level, self.config.size, self.config.seed):
            data = ShopOrdersData(
                prompt=f"Shop: {found.shop}\n\n{found.text}",
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                shop=found.shop,
                level=found.level,
                answer=found.answer,
                sql=found.sql,
            )
            yield ShopOrdersTask(data, self.config.task)


class ShopOrdersEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat with tools, in a local process: no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=MAX_TURNS
    )


class ShopOrdersEnv(vf.SingleAgentEnv, vf.Env[ShopOrdersEnvConfig]):
    """Makes the plain chat the default."""
