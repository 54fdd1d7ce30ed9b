"""Tasks, rewards and the way they are run: one question, one reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from classification_template.answers import FORMAT, ask, gold_of, in_form, score
from classification_template.rows import rows

INSTRUCTION = "Read the text and think about which class it belongs to."


class ClassificationTemplateData(vf.TaskData):
    """One question with its gold."""

    answer: str
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class ClassificationTemplateTask(vf.Task[ClassificationTemplateData]):
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


class ClassificationTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""


class ClassificationTemplateTaskset(vf.Taskset[ClassificationTemplateTask, ClassificationTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    def load(self) -> Iterator[ClassificationTemplateTask]:
        for row in rows(self.config.split):
            metadata = row.get("metadata")
            if not all((metadata or {}).get(name) in wanted for name, wanted in (self.config.where or {}).items()):
                continue
            gold = gold_of(row)
            if gold is None:
                continue
            data = ClassificationTemplateData(
                prompt=ask(row), system_prompt=f"{INSTRUCTION}\n{FORMAT}", answer=gold, metadata=metadata
            )
            yield ClassificationTemplateTask(data, self.config.task)


class ClassificationTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class ClassificationTemplateEnv(vf.SingleAgentEnv, vf.Env[ClassificationTemplateEnvConfig]):
    """Makes the plain chat the default."""
