"""One environment in both generations whose tools, judge and time limits can be made to fail, and one run of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.spec import Endpoint, EvalSpec
from prime_lab_mcp.lab.evals.zeros import Classified, classify
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.rehearsal import connection

V1 = '''
import asyncio
from typing import Literal
import verifiers.v1 as vf

class ToolsConfig(vf.SharedToolsetConfig):
    slow: Literal["", "tool", "rollout"] = ""

class Tools(vf.Toolset[ToolsConfig]):
    TOOL_PREFIX = None

    @vf.tool
    async def add(self, first: int, second: int) -> str:
        """The sum of two numbers."""
        if self.config.slow == "rollout":
            await asyncio.sleep(60)
        if self.config.slow == "tool":
            try:
                await asyncio.wait_for(asyncio.sleep(60), 0.2)
            except TimeoutError:
                raise TimeoutError("the calculator timed out after 0.2 seconds") from None
        return str(first + second)

class SumData(vf.TaskData):
    answer: str

class SumConfig(vf.TaskConfig):
    judge: vf.ReferenceJudgeConfig | None = None

class SumTask(vf.Task[SumData, vf.State, SumConfig]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        if self.config.judge is not None:
            return await vf.ReferenceJudge(self.config.judge).score(self.data, trace)
        return float(f"<answer>{self.data.answer}</answer>" in trace.last_reply)

    @vf.reward(weight=0.2)
    async def answer_format(self, trace: vf.Trace) -> float:
        return float("</answer>" in trace.last_reply)

class SumsConfig(vf.TasksetConfig):
    tools: ToolsConfig | None = None
    seconds: float | None = None
    task: SumConfig = SumConfig()

class Sums(vf.Taskset[SumTask, SumsConfig]):
    @classmethod
    def toolsets(cls, config: SumsConfig) -> list[vf.Toolset]:
        return [Tools(config.tools)] if config.tools else []

    def load(self):
        for n in range(3):
            prompt = f"What is {n}+{n + 1}? Put it in <answer></answer>."
            data = SumData(prompt=prompt, answer=str(2 * n + 1), timeout=vf.TaskTimeout(agent=self.config.seconds))
            yield SumTask(data, self.config.task)

if __name__ == "__main__":
    Tools.run()
'''
V0 = '''
import os
import verifiers as vf
from datasets import Dataset

def load_environment(tools: bool = False, slow: bool = False, judged: str = "") -> vf.Environment:
    rows = [{"question": f"What is {n}+{n + 1}? Put it in <answer></answer>.", "answer": str(2 * n + 1)}
            for n in range(3)]

    async def add(first: int, second: int) -> str:
        """The sum of two numbers.

        Args:
            first: One number.
            second: The other.
        """
        if slow:
            raise TimeoutError("Command timed out after 0.2s")
        return str(first + second)

    async def correct(completion, answer, prompt, state, judge=None) -> float:
        if judge is not None:
            return float((await judge(prompt, completion, answer, state)).strip().lower().startswith("yes"))
        return float(f"<answer>{answer}</answer>" in completion[-1]["content"])

    async def answer_format(completion) -> float:
        return float("</answer>" in (completion[-1]["content"] or ""))

    if judged:
        rubric = vf.JudgeRubric(judge_model=judged)
        rubric.add_reward_func(correct, 1.0)
        rubric.add_reward_func(answer_format, 0.2)
    else:
        rubric = vf.Rubric(funcs=[correct, answer_format], weights=[1.0, 0.2])
    data = Dataset.from_list(rows)
    if tools:
        return vf.ToolEnv(tools=[add], max_turns=4, dataset=data, eval_dataset=data, rubric=rubric)
    return vf.SingleTurnEnv(dataset=data, eval_dataset=data, rubric=rubric)
'''
OLD = ("verifiers>=0.1.14,<0.2", "datasets>=3.0,<4.7", "math-verify>=0.9,<0.10")
README = "# Sums\n\n## Overview\nAdd two numbers.\n\n## Usage\nrun_eval\n"


def write(workspace: Path, api: str) -> None:
    root = workspace / "environments" / "failing"
    (root / "failing").mkdir(parents=True)
    needed = ", ".join(f'"{one}"' for one in (OLD if api == "v0" else ("verifiers>=0.4.0,<0.5",)))
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "failing"\nversion = "0.1.0"\ndependencies = [{needed}]\n', encoding="utf-8"
    )
    (root / "README.md").write_text(README, encoding="utf-8")
    code = V0 if api == "v0" else V1
    start = "from failing.main import load_environment" if api == "v0" else "from failing.main import Sums"
    (root / "failing" / "__init__.py").write_text(f"{start}\n__all__ = {start.split()[-1:]}\n", encoding="utf-8")
    (root / "failing" / "main.py").write_text(code, encoding="utf-8")


async def run(
    lab: Lab, url: str, api: Any, model: str, *, python: Path | None = None, seconds: float = 150.0, **args: Any
) -> tuple[EvalSpec, list[Classified | None]]:
    """One real evaluation against the rehearsal platform at `url`, and the class of each of its rollouts."""
    snapshot = await lab.snapshot("failing")
    python = python or Path(sys.executable)
    spec = EvalSpec(
        environment=snapshot.name, source=snapshot.source, content=snapshot.content, tree=snapshot.tree, api=api,
        module="failing", python=python, program=python.parent / "vf-eval",
        verifiers="0.1.14" if api == "v0" else "0.4.0", model=model,
        endpoint=Endpoint("url", connection.inference_url(url), "MODEL_KEY"), num_examples=2, rollouts=1, tasks=3,
        max_tokens=64, deadline_s=seconds, env_args=args, weights={"correct": 1.0, "answer_format": 0.2},
    )  # fmt: skip
    job = await lab.evals.start(spec, connection.KEY)
    job = await lab.evals.wait(job.id, seconds, _quiet)
    assert job.state == "finished", job.progress
    rollouts = list(lab.evals.rollouts(job.id))
    return spec, [classify(r, cap=spec.max_tokens, weights=spec.weights) for r in rollouts]


async def _quiet(done: float, total: float | None, message: str) -> None:
    """Nobody follows."""
