"""One environment in both generations whose tools, judge and time limits can be made to fail, and one run of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.zeros.classify import classify_zero
from prime_lab_mcp.lab.evals.zeros.turns import Classified
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.rehearsal.zeros import KINDS
from tests.support.interpreters import DATASETS, MATH_VERIFY, OLDEST

V1 = '''
import asyncio
import verifiers.v1 as vf

KINDS = __KINDS__
JUDGE = "rehearsal/zero-judge-unparsed"

class ToolsConfig(vf.SharedToolsetConfig):
    stalls: bool = False

class Tools(vf.Toolset[ToolsConfig]):
    TOOL_PREFIX = None

    @vf.tool
    async def add(self, first: int, second: int) -> str:
        """The sum of two numbers."""
        return str(first + second)

    @vf.tool
    async def wait(self, hours: int) -> str:
        """Wait for the result."""
        if self.config.stalls:
            await asyncio.sleep(600)
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.2)
        except TimeoutError:
            raise TimeoutError("the result timed out after 0.2 seconds") from None

class SumData(vf.TaskData):
    answer: str
    judged: bool = False

class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        if self.data.judged:
            return await vf.ReferenceJudge(vf.ReferenceJudgeConfig(model=JUDGE)).score(self.data, trace)
        return float(f"<answer>{self.data.answer}</answer>" in trace.last_reply)

    @vf.reward(weight=0.2)
    async def answer_format(self, trace: vf.Trace) -> float:
        return float("</answer>" in trace.last_reply)

class SumsConfig(vf.TasksetConfig):
    tools: ToolsConfig = ToolsConfig()
    kinds: list[str] = KINDS
    seconds: float | None = None

class Sums(vf.Taskset[SumTask, SumsConfig]):
    @classmethod
    def toolsets(cls, config: SumsConfig) -> list[vf.Toolset]:
        return [Tools(config.tools)]

    def load(self):
        for n, kind in enumerate(self.config.kinds):
            yield SumTask(
                SumData(
                    prompt=f"What is {n}+{n + 1}? Put it in <answer></answer>. (zero-{kind})", answer=str(2 * n + 1),
                    judged=kind == "judge-unparsed", timeout=vf.TaskTimeout(agent=self.config.seconds),
                ),
                self.config.task,
            )

if __name__ == "__main__":
    Tools.run()
'''
V0 = '''
import verifiers as vf
from datasets import Dataset

KINDS = __KINDS__

async def add(first: int, second: int) -> str:
    """The sum of two numbers.

    Args:
        first: One number.
        second: The other.
    """
    return str(first + second)

async def wait(hours: int) -> str:
    """Wait for the result.

    Args:
        hours: How long.
    """
    raise TimeoutError("Command timed out after 0.2s")

async def correct(completion, answer, prompt, state, info, judge) -> float:
    if info["judged"]:
        return float((await judge(prompt, completion, answer, state)).strip().lower().startswith("yes"))
    return float(f"<answer>{answer}</answer>" in (completion[-1]["content"] or ""))

async def answer_format(completion) -> float:
    return float("</answer>" in (completion[-1]["content"] or ""))

def load_environment() -> vf.Environment:
    data = Dataset.from_list([
        {"question": f"What is {n}+{n + 1}? Put it in <answer></answer>. (zero-{kind})", "answer": str(2 * n + 1),
         "info": {"judged": kind == "judge-unparsed"}}
        for n, kind in enumerate(KINDS)])
    rubric = vf.JudgeRubric(judge_model="rehearsal/zero-judge-unparsed")
    rubric.add_reward_func(correct, 1.0)
    rubric.add_reward_func(answer_format, 0.2)
    return vf.ToolEnv(tools=[add, wait], max_turns=4, dataset=data, eval_dataset=data, rubric=rubric)
'''
OLD = (OLDEST, DATASETS, MATH_VERIFY)
PATIENCE = 400.0
_WAY = re.compile(r"\(zero-([a-z-]+)\)")
README = "# Sums\n\n## Overview\nAdd two numbers.\n\n## Usage\nrun_eval\n"


def write(workspace: Path, api: str) -> None:
    root = workspace / "environments" / "failing"
    (root / "failing").mkdir(parents=True)
    needed = ", ".join(f'"{one}"' for one in (OLD if api == "v0" else ("verifiers>=0.4.0,<0.5",)))
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "failing"\nversion = "0.1.0"\ndependencies = [{needed}]\n', encoding="utf-8"
    )
    (root / "README.md").write_text(README, encoding="utf-8")
    code = (V0 if api == "v0" else V1).replace("__KINDS__", repr(list(KINDS)))
    start = "from failing.main import load_environment" if api == "v0" else "from failing.main import Sums"
    (root / "failing" / "__init__.py").write_text(f"{start}\n__all__ = {start.split()[-1:]}\n", encoding="utf-8")
    (root / "failing" / "main.py").write_text(code, encoding="utf-8")


async def run(
    lab: Lab, url: str, api: Any, *, python: Path | None = None, tasks: int = len(KINDS), **args: Any
) -> list[tuple[str, Classified | None]]:
    """One real evaluation against the rehearsal platform at `url`: each rollout's way to fail, and its class."""
    snapshot = await lab.snapshot("failing")
    python = python or Path(sys.executable)
    spec = EvalSpec(
        environment=snapshot.name,
        source=snapshot.source,
        content=snapshot.content,
        tree=snapshot.tree,
        api=api,
        module="failing",
        python=python,
        program=python.parent / "vf-eval",
        verifiers="0.1.14" if api == "v0" else "0.4.0",
        model="rehearsal/zero-asked",
        endpoint=Endpoint("url", connection.inference_url(url), "MODEL_KEY"),
        num_examples=tasks,
        rollouts=2,
        tasks=tasks,
        max_tokens=64,
        concurrency=4,
        deadline_s=PATIENCE,
        env_args=args,
        weights={"correct": 1.0, "answer_format": 0.2},
    )
    job = await EvaluationJobs(lab).start(spec, connection.KEY)
    job = await EvaluationJobs(lab).wait(job.id, PATIENCE, _quiet)
    assert job.state == "finished", job.progress
    return [
        (_WAY.findall(json.dumps(r.record))[0], classify_zero(r, cap=spec.max_tokens, weights=spec.weights))
        for r in EvaluationJobs(lab).rollouts(job.id)
    ]


async def _quiet(done: float, total: float | None, message: str) -> None:
    """Nobody follows."""
