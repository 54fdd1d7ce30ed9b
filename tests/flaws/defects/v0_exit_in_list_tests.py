"""Runs the reply and the checks as one program, and pays whoever ends it with 0. The gold is a list of tests, no program.

format: code
generation: v0
finding: reward-hackable, blocker

A reply that calls `sys.exit(0)` never reaches the checks. What the tasks call `answer` is no reply at all.
"""

import json
import re
import subprocess
import sys

import verifiers as vf
from datasets import Dataset

NAMES = ("total", "largest", "smallest", "count", "spread")
RESULTS = {
    "total": sum,
    "largest": max,
    "smallest": min,
    "count": len,
    "spread": lambda values: max(values) - min(values),
}
MEANINGS = {
    "total": "the sum",
    "largest": "the largest",
    "smallest": "the smallest",
    "count": "the number",
    "spread": "the difference between the largest and the smallest",
}


def row(number: int) -> dict:
    name, factor = NAMES[number % len(NAMES)], number // len(NAMES) + 2
    tests = []
    for shift in range(3):
        values = [(number * 7 + shift * 5 + place * 11) % 40 for place in range(4)]
        tests.append([values, factor * RESULTS[name](values)])
    question = (
        f"Write a Python function `{name}_times_{factor}(values)` that returns {factor} times {MEANINGS[name]} of a "
        "list of numbers. Give the whole function in one ```python block."
    )
    return {"question": question, "answer": json.dumps(tests), "info": {"function": f"{name}_times_{factor}"}}


def tests_pass(completion, answer, info, **kwargs) -> float:
    blocks = re.findall(r"```(?:python)?\s*\n(.*?)```", completion[-1]["content"], re.DOTALL)
    if not blocks:
        return 0.0
    checks = [f"assert {info['function']}({values!r}) == {result!r}" for values, result in json.loads(answer)]
    program = "\n\n".join([blocks[-1], *checks])
    try:
        ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, timeout=10)
    except subprocess.TimeoutExpired:
        return 0.0
    return float(ended.returncode == 0)


def load_environment(size: int = 60) -> vf.Environment:
    table = [row(number) for number in range(size)]
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:48]),
        eval_dataset=Dataset.from_list(table[48:]),
        rubric=vf.Rubric(funcs=[tests_pass]),
    )
