"""Tasks with their level and subject, rewards, and the way they are run: one problem, one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import verifiers.v1 as vf
from pydantic import Field

from competition_math.grading import FORMAT, copied, given, gold_of, right
from competition_math.rows import Source, Split, problems
from competition_math.symbolic import prepare

INSTRUCTION = "Solve the competition problem step by step."


class CompetitionMathData(vf.TaskData):
    """One problem with the answer of its reference solution. `level` and `subject` are for reports and curricula."""

    answer: str
    level: int
    """1 (easy) to 5; 0 where the dataset does not say."""
    subject: str


class CompetitionMathTask(vf.Task[CompetitionMathData]):
    """Pays for the right answer in any form; a little for any answer in a box."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the boxed answer equals the gold and is not copied from the problem."""
        data = self.data
        return float(await asyncio.to_thread(right, trace.last_reply, data.answer, str(data.prompt)))

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the reply gives one answer in a box, right or wrong."""
        return float(given(trace.last_reply) is not None)

    @vf.metric
    async def copied_from_problem(self, trace: vf.Trace) -> float:
        """1 when the boxed answer is an expression of the problem: a rising mean shows an attempt to cheat."""
        answer = given(trace.last_reply)
        return float(answer is not None and copied(answer, str(self.data.prompt)))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold itself would be paid; `vf-validate` asks."""
        data = self.data
        return await asyncio.to_thread(right, rf"\boxed{{{data.answer}}}", data.answer, str(data.prompt))


class CompetitionMathConfig(vf.TasksetConfig):
    """Which problems to load."""

    split: Split = "train"
    source: Source = "hub"
    """`sample` is packaged and made up; nothing but this field ever chooses it."""
    min_level: int = Field(default=1, ge=0, le=5)
    max_level: int = Field(default=5, ge=0, le=5)
    subjects: list[str] = Field(default_factory=list)
    """Subjects as the dataset writes them, such as `Number Theory`; empty: all."""


class CompetitionMathTaskset(vf.Taskset[CompetitionMathTask, CompetitionMathConfig]):
    """The problems of one split between two levels. Problems whose solution has no box are left out."""

    def load(self) -> Iterator[CompetitionMathTask]:
        config = self.config
        prepare()
        for problem in problems(config.source, config.split):
            gold = gold_of(problem.solution)
            inside = config.min_level <= problem.level <= config.max_level
            if gold is None or not inside or (config.subjects and problem.subject not in config.subjects):
                continue
            data = CompetitionMathData(
                prompt=problem.text,
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=gold,
                level=problem.level,
                subject=problem.subject,
            )
            yield CompetitionMathTask(data, config.task)


class CompetitionMathEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class CompetitionMathEnv(vf.SingleAgentEnv, vf.Env[CompetitionMathEnvConfig]):
    """Makes the plain chat the default."""
