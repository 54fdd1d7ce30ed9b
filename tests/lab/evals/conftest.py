"""A real v1 environment in a scratch workspace, and its specification for an endpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint

TASKSET = """
import json, os, re
from pathlib import Path
import verifiers.v1 as vf

class SumData(vf.TaskData):
    answer: str

class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.findall(r"<answer>(.*?)</answer>", trace.last_reply)
        return float(bool(found) and found[-1] == self.data.answer)

    @vf.reward(weight=0.2)
    async def format_reward(self, trace: vf.Trace) -> float:
        return float("<answer>" in trace.last_reply)

    @vf.metric
    async def reply_chars(self, trace: vf.Trace) -> float:
        Path("seen.json").write_text(json.dumps(dict(os.environ)))
        return float(len(trace.last_reply))

class SumConfig(vf.TasksetConfig):
    size: int = 40

class SumTaskset(vf.Taskset[SumTask, SumConfig]):
    def load(self):
        for n in range(self.config.size):
            yield SumTask(
                SumData(prompt=f"What is {n}+{n + 1}? Put it in <answer></answer>.", answer=str(2 * n + 1)),
                self.config.task,
            )
"""
PYPROJECT = '[project]\nname = "sums-v1"\nversion = "0.1.0"\ndependencies = ["verifiers>=0.4.0,<0.5"]\n'
README = "# Sums\n\n## Overview\nAdd two numbers.\n\n## Usage\nrun_eval\n"

Specified = Callable[..., EvalSpec]


def write_environment(workspace: Path) -> Path:
    root = workspace / "environments" / "sums_v1"
    (root / "sums_v1").mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (root / "README.md").write_text(README, encoding="utf-8")
    (root / "sums_v1" / "__init__.py").write_text(
        'from sums_v1.taskset import SumTaskset\n\n__all__ = ["SumTaskset"]\n', encoding="utf-8"
    )
    (root / "sums_v1" / "taskset.py").write_text(TASKSET, encoding="utf-8")
    return root


@pytest.fixture
async def specified(lab: Lab) -> Specified:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")

    def specify(url: str, *, tasks: int = 4, rollouts: int = 2, **changes: object) -> EvalSpec:
        values = {
            "environment": snapshot.name,
            "source": snapshot.source,
            "content": snapshot.content,
            "tree": snapshot.tree,
            "api": "v1",
            "module": "sums_v1",
            "python": Path(sys.executable),
            "program": Path(sys.executable).parent / "vf-eval",
            "verifiers": "0.4.0",
            "model": "scripted",
            "endpoint": Endpoint("url", url, "MODEL_KEY"),
            "num_examples": tasks,
            "rollouts": rollouts,
            "tasks": 40,
            "max_tokens": 64,
            "deadline_s": 120.0,
            "weights": {"correct": 1.0, "format_reward": 0.2},
        }
        return EvalSpec(**(values | changes))  # type: ignore[arg-type]

    return specify
