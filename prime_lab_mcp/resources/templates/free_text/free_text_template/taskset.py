"""Tasks, rewards and the way they are run: one question, one reply, judged against a reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from free_text_template.judging import FreeTextTemplateJudge, FreeTextTemplateJudgeConfig
from free_text_template.replies import answer_of
from free_text_template.rows import rows
from free_text_template.rules import settled
from free_text_template.selection import selected

INSTRUCTION = "Answer in one to three sentences."
FORMAT = "Put the answer, and nothing else, in answer tags: <answer>ANSWER</answer>"


class FreeTextTemplateData(vf.TaskData):
    """One question with the answer that others are compared with."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class FreeTextTemplateTaskConfig(vf.TaskConfig):
    """The judge that is asked where no rule decides."""

    judge: FreeTextTemplateJudgeConfig = FreeTextTemplateJudgeConfig()


class FreeTextTemplateTask(vf.Task[FreeTextTemplateData, vf.State, FreeTextTemplateTaskConfig]):
    """Pays for what the reference says; a little for any answer in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """How much of the reference the answer says, from 0 to 1. Raises when the judge fails."""
        answer, question, reference = answer_of(trace.last_reply), self.data.prompt_text, self.data.answer
        score = settled(answer, question, reference)
        if score is not None or answer is None:
            return score or 0.0
        return await FreeTextTemplateJudge(self.config.judge).grade(question, reference, answer, trace)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in answer tags, right or wrong."""
        return float(answer_of(trace.last_reply) is not None)

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the reference itself is worth the whole reward; `vf-validate` asks."""
        return settled(self.data.answer, self.data.prompt_text, self.data.answer) == 1.0


class FreeTextTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""
    task: FreeTextTemplateTaskConfig = FreeTextTemplateTaskConfig()


class FreeTextTemplateTaskset(vf.Taskset[FreeTextTemplateTask, FreeTextTemplateConfig]):
    """The questions of one split."""

    def load(self) -> Iterator[FreeTextTemplateTask]:
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            data = FreeTextTemplateData(
                prompt=str(row["question"]),
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=str(row["answer"]),
                metadata=metadata,
            )
            yield FreeTextTemplateTask(data, self.config.task)


class FreeTextTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class FreeTextTemplateEnv(vf.SingleAgentEnv, vf.Env[FreeTextTemplateEnvConfig]):
    """Makes the plain chat the default."""
