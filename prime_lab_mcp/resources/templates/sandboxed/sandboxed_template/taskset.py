"""Tasks, rewards and the way they are run: files in a container, an agent with a shell, a check in that container."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from sandboxed_template.answers import FORMAT, ask, given, gold_of
from sandboxed_template.rows import rows
from sandboxed_template.runtime import check, place, require
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
"""Modules that the tasks and their check need; each rollout makes sure of them before the model is asked."""


class SandboxedTemplateData(vf.TaskData):
    """One question with its gold and the files it is about."""

    answer: str
    files: dict[str, str]
    metadata: dict[str, str | int | float | bool | None] | None = None
    """Other columns of the dataset, to select and to group by."""


class SandboxedTemplateTask(vf.Task[SandboxedTemplateData]):
    """Pays for the right answer, as the check in the runtime finds it; a little for any answer in the right form."""

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
    async def correct_answer(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """1 when the check accepts the answer of the last reply; a check that fails to run fails the rollout."""
        answer = given(trace.last_reply)
        return 0.0 if answer is None else float(await check(runtime, answer, self.data.answer))

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(given(trace.last_reply) is not None)

    @vf.metric
    async def commands(self, trace: vf.Trace) -> float:
        """How many tool calls the model made."""
        return float(sum(len(message.tool_calls or ()) for message in trace.assistant_messages))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the check accepts the gold in the runtime; `vf-validate` asks."""
        return await check(runtime, self.data.answer, self.data.answer)


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
            data = SandboxedTemplateData(
                prompt=ask(row),
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=gold,
                files=row.get("files") or {},
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
