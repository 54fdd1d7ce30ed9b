"""A real v0 environment, and interpreters of the three lines of verifiers that have v0."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.interpreter import Interpreter
from tests.support.interpreters import OLDEST, older

VERSIONS = ("0.1.14", "0.2.1", "0.3.1")
MODULE = """
import re
import verifiers as vf
from datasets import Dataset


def said(completion):
    return re.findall(r"<answer>(.*?)</answer>", completion[-1]["content"])


def correct(completion, answer, **kwargs) -> float:
    return float(said(completion)[-1:] == [answer])


def format_reward(completion, **kwargs) -> float:
    return float(bool(said(completion)))


def shortest(completions, **kwargs) -> list[float]:
    least = min(len(c[-1]["content"]) for c in completions)
    return [float(len(c[-1]["content"]) == least) for c in completions]


def load_environment(size: int = 40, group: bool = False) -> vf.Environment:
    rows = [{"question": f"What is {n}+{n + 1}?", "answer": str(2 * n + 1)} for n in range(size)]
    rubric = vf.Rubric(funcs=[correct, format_reward], weights=[1.0, 0.2])
    if group:
        rubric.add_reward_func(shortest, weight=0.1)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""


async def interpreter(version: str) -> Interpreter:
    return await older(OLDEST if version == "0.1.14" else f"verifiers=={version}")


def write(workspace: Path) -> None:
    """The package `sums_v0` in a workspace."""
    root = workspace / "environments" / "sums_v0"
    root.mkdir(parents=True)
    (root / "sums_v0.py").write_text(MODULE, encoding="utf-8")
    (root / "README.md").write_text("# Sums\n", encoding="utf-8")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "sums-v0"\nversion = "0.1.0"\ndependencies = ["verifiers>=0.1.14,<0.4", "datasets"]\n',
        encoding="utf-8",
    )
