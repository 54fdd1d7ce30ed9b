"""Grade-school math: one problem, one reply, a number in an answer tag."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

from gsm8k.numbers import answer_of, gold_of, same, show
from gsm8k.rows import Source, Split, rows

INSTRUCTION = "Solve the math problem step by step."
FORMAT = "Then give the final number, and nothing else, in answer tags: <answer>NUMBER</answer>"


class Gsm8kData(vf.TaskData):
    """One question with its gold number, written as plain digits (`1200`, `0.5`)."""

    answer: str


class Gsm8kTask(vf.Task[Gsm8kData]):
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


class Gsm8kConfig(vf.TasksetConfig):
    """Which problems to load."""

    split: Split = "train"
    source: Source = "hub"
    """`sample` is packaged and made up; nothing but this field ever chooses it."""
    data_file: str | None = None
    """A JSONL file with `question` and `answer`, read in place of the source."""


class Gsm8kTaskset(vf.Taskset[Gsm8kTask, Gsm8kConfig]):
    """The questions of one split. Rows whose gold is no number are left out."""

    def load(self) -> Iterator[Gsm8kTask]:
        for question, answer in rows(self.config.source, self.config.split, self.config.data_file):
            gold = gold_of(answer)
            if gold is None:
                continue
            data = Gsm8kData(
                prompt=question,
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=show(gold),
            )
            yield Gsm8kTask(data, self.config.task)


class Gsm8kEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class Gsm8kEnv(vf.SingleAgentEnv, vf.Env[Gsm8kEnvConfig]):
    """Makes the plain chat the default."""
