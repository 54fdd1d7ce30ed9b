"""Tasks, rewards and the way they are run: one question, one reply, a number in an answer tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from numeric_template.numbers import answer_of, gold_of, same, show
from numeric_template.rows import rows

INSTRUCTION = "Solve the problem step by step."
FORMAT = "Then give the final number, and nothing else, in answer tags: <answer>NUMBER</answer>"


class NumericTemplateData(vf.TaskData):
    """One question with its gold number, written as plain digits (`1200`, `0.5`)."""

    answer: str


class NumericTemplateTask(vf.Task[NumericTemplateData]):
    """Pays for the right number; a little for any number in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the tagged number equals the gold; nothing the model writes is ever evaluated."""
        given, gold = answer_of(trace.last_reply), gold_of(self.data.answer)
        return float(given is not None and gold is not None and same(given, gold))

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the reply holds one readable number in answer tags, right or wrong."""
        return float(answer_of(trace.last_reply) is not None)

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold can be read; `vf-validate` asks."""
        return gold_of(self.data.answer) is not None


class NumericTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval"] = "train"


class NumericTemplateTaskset(vf.Taskset[NumericTemplateTask, NumericTemplateConfig]):
    """The questions of one split. Rows whose gold is no number are left out."""

    def load(self) -> Iterator[NumericTemplateTask]:
        for question, answer in rows(self.config.split):
            gold = gold_of(answer)
            if gold is None:
                continue
            data = NumericTemplateData(
                prompt=question,
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=show(gold),
            )
            yield NumericTemplateTask(data, self.config.task)


class NumericTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class NumericTemplateEnv(vf.SingleAgentEnv, vf.Env[NumericTemplateEnvConfig]):
    """Makes the plain chat the default."""
