"""Tasks, rewards and the way they are run: files in a container, an agent with a shell, scored outside of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from sandboxed_template.answers import FORMAT, ask, given, gold_of, right, rule
from sandboxed_template.commands import commands_of, used
from sandboxed_template.rows import rows
from sandboxed_template.runtime import place, require
from sandboxed_template.selection import selected

INSTRUCTION = (
    "Answer the question. The files that it names lie in the working directory; look into them with the shell."
)
IMAGE = "python:3.11-slim"
"""A task that names an image is refused by verifiers where there is no container."""
WORKDIR = "/workspace"
RESOURCES = vf.TaskResources(cpu=1, memory=2)
"""CPU cores and gigabytes of memory."""
IMPORTS: tuple[str, ...] = ("csv", "decimal")
"""Modules that the tasks need; each rollout makes sure of them before the model is asked."""


class SandboxedTemplateData(vf.TaskData):
    """One question with its gold and the files it is about."""

    answer: str
    files: dict[str, str]
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class SandboxedTemplateTask(vf.Task[SandboxedTemplateData]):
    """Pays for the right answer after a look into the task's files, and for nothing else."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Make sure of what the task needs, and write its files."""
        await require(runtime, IMPORTS, self.data.image or IMAGE)
        await place(runtime, self.data.files)

    def solution(self) -> list[dict[str, Any]]:
        """How the task is solved: a look into its files, then the answer. `test_reward` plays this in the container."""
        command = "cat " + " ".join(map(shlex.quote, self.data.files)) if self.data.files else "ls"
        return [
            {"role": "assistant", "tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
            {"role": "assistant", "content": f"<answer>{self.data.answer}</answer>"},
        ]

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the last reply gives the right answer and a command of the model named a file of the task."""
        answer = given(trace.last_reply)
        return float(answer is not None and right(answer, self.data.answer) and self._looked(trace))

    @vf.metric
    async def right_without_files(self, trace: vf.Trace) -> float:
        """1 when the answer is right and no command named a file: such replies are not paid."""
        answer = given(trace.last_reply)
        return float(answer is not None and right(answer, self.data.answer) and not self._looked(trace))

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(given(trace.last_reply) is not None)

    @vf.metric
    async def commands(self, trace: vf.Trace) -> float:
        """How many commands the model gave."""
        return float(len(commands_of(trace)))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the gold is right by itself; `vf-validate` asks, after the setup in the runtime."""
        return right(self.data.answer, self.data.answer)

    def _looked(self, trace: vf.Trace) -> bool:
        return used(commands_of(trace), self.data.files)


class SandboxedTemplateConfig(vf.TasksetConfig):
    """Which split to load."""

    split: Literal["train", "eval", "test"] = "train"
    where: dict[str, list[str | int | float | bool | None]] | None = None
    """Only tasks whose metadata have one of these values: {"level": [1, 2]}."""
    num_examples: int | None = None
    """At most so many tasks, drawn with a fixed seed."""


class SandboxedTemplateTaskset(vf.Taskset[SandboxedTemplateTask, SandboxedTemplateConfig]):
    """The questions of one split. Rows whose gold cannot be read are left out."""

    def load(self) -> Iterator[SandboxedTemplateTask]:
        for row in selected(rows(self.config.split), self.config.where, self.config.num_examples):
            metadata = row.get("metadata")
            gold = gold_of(row)
            if gold is None:
                continue
            files = row.get("files") or {}
            data = SandboxedTemplateData(
                prompt=ask(row),
                system_prompt=f"{INSTRUCTION}\n{FORMAT}\n{rule(files)}",
                answer=gold,
                files=files,
                image=IMAGE,
                workdir=WORKDIR,
                resources=RESOURCES,
                metadata=metadata,
            )
            yield SandboxedTemplateTask(data, self.config.task)


class SandboxedTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """An agent with a shell. Its runtime is the default of verifiers, a sandbox of the platform."""

    agent: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("bash")(id="bash"), max_turns=20)


class SandboxedTemplateEnv(vf.SingleAgentEnv, vf.Env[SandboxedTemplateEnvConfig]):
    """Makes the agent with a shell the default."""
