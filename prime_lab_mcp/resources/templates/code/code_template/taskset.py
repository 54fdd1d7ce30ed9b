"""Tasks, rewards and the way they are run: one task, one program, run against tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf
from verifiers.v1.runtimes import provision_runtime

from code_template.grading import Limits, Tests, passes
from code_template.programs import is_python, program
from code_template.rows import rows
from code_template.selection import selected

INSTRUCTION = "Solve the programming task in Python, with the standard library only."
FORMAT = (
    "Give the whole program in one code block that begins with ```python and ends with ```, and no other code block."
)


class CodeTemplateData(vf.TaskData):
    """One task with its tests, and a solution where one is known. The model sees neither."""

    tests: Tests
    solution: str | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class CodeTemplateTaskConfig(vf.TaskConfig):
    """What a program may use while it is tested."""

    limits: Limits = Limits()


class CodeTemplateTask(vf.Task[CodeTemplateData, vf.State, CodeTemplateTaskConfig]):
    """Pays for a program that passes every test; a little for any program in the right form."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace, runtime: vf.Runtime | None = None) -> float:
        """1 when the program of the last reply passes every test. Without a runtime it runs in a local process."""
        code = program(trace.last_reply)
        if code is None:
            return 0.0
        if runtime is not None:
            return float(await passes(code, self.data.tests, runtime, self.config.limits))
        async with provision_runtime(vf.SubprocessConfig(), name=f"grade-{trace.id}") as own:
            return float(await passes(code, self.data.tests, own, self.config.limits))

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply holds one Python code block that parses, right or wrong."""
        code = program(trace.last_reply)
        return float(code is not None and is_python(code))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the known solution passes the tests, None where none is known; `vf-validate` asks."""
        if self.data.solution is None:
            return None
        return await passes(self.data.solution, self.data.tests, runtime, self.config.limits)


class CodeTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""
    task: CodeTemplateTaskConfig = CodeTemplateTaskConfig()


class CodeTemplateTaskset(vf.Taskset[CodeTemplateTask, CodeTemplateConfig]):
    """The tasks of one split."""

    def load(self) -> Iterator[CodeTemplateTask]:
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            data = CodeTemplateData(
                prompt=str(row["question"]),
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                tests=Tests.model_validate(row["answer"]),
                solution=row.get("solution"),
                metadata=metadata,
            )
            yield CodeTemplateTask(data, self.config.task)


class CodeTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat; programs are tested in a local process. A container is set from outside, see the README."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class CodeTemplateEnv(vf.SingleAgentEnv, vf.Env[CodeTemplateEnvConfig]):
    """Makes the plain chat the default."""
