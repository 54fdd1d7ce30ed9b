"""Tasks, rewards and the way they are run: one question, one reply."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import verifiers.v1 as vf

from boolean_template.answers import FORMAT, ask, gold_of, in_form, reply_with, score
from boolean_template.rows import rows
from boolean_template.selection import selected

INSTRUCTION = "Think about the question step by step."


class BooleanTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class BooleanTemplateTask(vf.Task[BooleanTemplateData]):
    """Pays for the right answer; a little for any answer in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the answer of the last reply is right."""
        return score(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(in_form(trace.last_reply))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold can be read; `vf-validate` asks."""
        return gold_of({"question": "", "answer": self.data.answer}) is not None


class BooleanTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""
    few_shot: int = 0
    """So many worked examples in the system prompt. They are the first training tasks, and no tasks themselves."""


class BooleanTemplateTaskset(vf.Taskset[BooleanTemplateTask, BooleanTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    def _worked(self) -> list[tuple[str, str]]:
        """Question and reply of each worked example."""
        golds = ((row, gold_of(row)) for row in (rows("train") if self.config.few_shot else ()))
        readable = ((ask(row), reply_with(gold)) for row, gold in golds if gold is not None)
        return list(islice(readable, self.config.few_shot))

    def load(self) -> Iterator[BooleanTemplateTask]:
        worked = self._worked()
        shown, system = {asked for asked, _ in worked}, f"{INSTRUCTION}\n{FORMAT}"
        for number, (asked, reply) in enumerate(worked, 1):
            system += f"\n\nExample {number}:\n{asked}\n\n{reply}"
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            gold = gold_of(row)
            if gold is None or (shown and ask(row) in shown):
                continue
            data = BooleanTemplateData(prompt=ask(row), system_prompt=system, answer=gold, metadata=metadata)
            yield BooleanTemplateTask(data, self.config.task)


class BooleanTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class BooleanTemplateEnv(vf.SingleAgentEnv, vf.Env[BooleanTemplateEnvConfig]):
    """Makes the plain chat the default."""
