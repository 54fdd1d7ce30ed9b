"""Tasks, rewards and the way they are run: one question, a chain of look-ups, one number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import verifiers.v1 as vf

from store_lookup.answers import FORMAT, in_form, score
from store_lookup.tools import StoreLookupToolset

DATA = Path(__file__).parent / "data"
INSTRUCTION = (
    "You work for a household goods shop. Answer the question from the shop's database, which you read with the tools. "
    "Start with search_products; a product's id leads to everything else. Do not guess any figure."
)
MAX_TURNS = 14
"""Model calls in one rollout. One that needs more ends without an answer and counts as truncated."""


class StoreLookupData(vf.TaskData):
    """One question with its gold."""

    answer: str
    lookups: int
    """Facts that the question asks for, each a call of its own beside the searches: how long its chain is."""


class StoreLookupTask(vf.Task[StoreLookupData]):
    """Pays for the right number, however it was found; a little for any number in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the number of the last reply is right."""
        return score(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one number in the right form, right or wrong."""
        return float(in_form(trace.last_reply))

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        """How many tools the model called. As a reward it would teach to call for the sake of calling."""
        return float(sum(len(message.tool_calls or ()) for message in trace.assistant_messages))

    @vf.metric
    async def failed_tool_calls(self, trace: vf.Trace) -> float:
        """How many calls came back with an error: no such id or tool, or broken arguments."""
        results = [message.content for message in trace.tool_messages]
        return float(sum(isinstance(text, str) and text.lower().startswith("error") for text in results))

    @vf.metric
    async def guessed(self, trace: vf.Trace) -> float:
        """1 when an answer was given after fewer successful calls than the question needs facts."""
        found = [m.content for m in trace.tool_messages if isinstance(m.content, str)]
        useful = sum(not text.lower().startswith("error") for text in found)
        return float(in_form(trace.last_reply) and useful < self.data.lookups)


class StoreLookupConfig(vf.TasksetConfig):
    """Which split to load, and where the tools run."""

    split: Literal["train", "eval"] = "train"
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class StoreLookupTaskset(vf.Taskset[StoreLookupTask, StoreLookupConfig]):
    """The questions of one split."""

    @classmethod
    def toolsets(cls, config: StoreLookupConfig) -> list[vf.Toolset]:
        """One server for all rollouts; the tools keep nothing between calls."""
        return [StoreLookupToolset(config.tools)]

    def load(self) -> Iterator[StoreLookupTask]:
        with (DATA / f"{self.config.split}.jsonl").open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                data = StoreLookupData(
                    prompt=row["question"],
                    system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                    answer=row["answer"],
                    lookups=row["lookups"],
                )
                yield StoreLookupTask(data, self.config.task)


class StoreLookupEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat with tools, in a local process: no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=MAX_TURNS
    )


class StoreLookupEnv(vf.SingleAgentEnv, vf.Env[StoreLookupEnvConfig]):
    """Makes the plain chat the default."""
