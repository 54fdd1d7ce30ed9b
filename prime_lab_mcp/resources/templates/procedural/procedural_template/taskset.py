"""Tasks, rewards and the way they are run: one generated puzzle, one reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from procedural_template.answers import FORMAT, in_form, score
from procedural_template.generator import puzzles

INSTRUCTION = "Work through the puzzle step by step."


class ProceduralTemplateData(vf.TaskData):
    """One puzzle with its gold and its level."""

    answer: str
    level: str


class ProceduralTemplateTask(vf.Task[ProceduralTemplateData]):
    """Pays for the right answer; a little for any answer in the right form."""

    def solution(self) -> list[dict[str, Any]]:
        """How the task is solved. With tools or turns, `test_reward` plays the calls that stand here."""
        return [{"role": "assistant", "content": f"<answer>{self.data.answer}</answer>"}]

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the answer of the last reply is right."""
        return score(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the last reply gives one answer in the right form, right or wrong."""
        return float(in_form(trace.last_reply))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the stated solution is right; `vf-validate` asks."""
        return score(self.solution()[-1]["content"], self.data.answer) == 1.0


class ProceduralTemplateConfig(vf.TasksetConfig):
    """Which puzzles, how hard and how many."""

    split: Literal["train", "eval"] = "train"
    level: Literal["all", "easy", "medium", "hard"] = "all"
    size: int = 300
    seed: int = 0


class ProceduralTemplateTaskset(vf.Taskset[ProceduralTemplateTask, ProceduralTemplateConfig]):
    """Generated puzzles. No puzzle is in both splits."""

    def load(self) -> Iterator[ProceduralTemplateTask]:
        system = f"{INSTRUCTION}\n{FORMAT}"
        for level, made in puzzles(self.config.split, self.config.level, self.config.size, self.config.seed):
            data = ProceduralTemplateData(prompt=made.question, system_prompt=system, answer=made.answer, level=level)
            yield ProceduralTemplateTask(data, self.config.task)


class ProceduralTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class ProceduralTemplateEnv(vf.SingleAgentEnv, vf.Env[ProceduralTemplateEnvConfig]):
    """Makes the plain chat the default."""
