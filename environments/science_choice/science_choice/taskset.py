"""Tasks, rewards and the way they are run: one question with lettered options, one reply."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from pydantic import Field

from science_choice.answers import FORMAT, given
from science_choice.options import place
from science_choice.rows import Split, questions

INSTRUCTION = "Read the question and its options, and think about which one is right."


class ScienceChoiceData(vf.TaskData):
    """One question with its options as they are shown, and the letter of the right one."""

    answer: str
    options: list[str]
    subject: str


class ScienceChoiceTask(vf.Task[ScienceChoiceData]):
    """Pays for the right option; a little for naming any one of them."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the reply chooses the right option."""
        return float(given(trace.last_reply, self.data.options) == self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the reply chooses one of the options, right or wrong."""
        return float(given(trace.last_reply, self.data.options) is not None)

    @vf.metric
    async def chose_first(self, trace: vf.Trace) -> float:
        """1 when the reply chooses A. Every letter is right equally often, so a mean far from 1/4 is a habit."""
        return float(given(trace.last_reply, self.data.options) == "A")

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold is the letter of an option; `vf-validate` asks."""
        return given(f"<answer>{self.data.answer}</answer>", self.data.options) == self.data.answer


class ScienceChoiceConfig(vf.TasksetConfig):
    """Which questions to load, and how their options are shown."""

    split: Split = "train"
    seed: int = 0
    """Another seed shows the options of the same questions in another order."""
    options: int = Field(default=4, ge=2, le=4)
    """Options per question; fewer are easier to guess from."""


class ScienceChoiceTaskset(vf.Taskset[ScienceChoiceTask, ScienceChoiceConfig]):
    """The questions of one split."""

    def load(self) -> Iterator[ScienceChoiceTask]:
        config = self.config
        for placed in place(list(questions(config.split)), config.options, config.seed):
            data = ScienceChoiceData(
                prompt=placed.prompt,
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=placed.answer,
                options=list(placed.options),
                subject=placed.question.subject,
            )
            yield ScienceChoiceTask(data, config.task)


class ScienceChoiceEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class ScienceChoiceEnv(vf.SingleAgentEnv, vf.Env[ScienceChoiceEnvConfig]):
    """Makes the plain chat the default."""
