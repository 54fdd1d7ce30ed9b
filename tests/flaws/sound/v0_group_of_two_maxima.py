"""A group of two environments, of which one pays at most one half.

format: numeric
generation: v0

Each member has its own rubric and its own maximum; right answers earn the maximum of their member.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Give the number inside <answer> tags."


def sums(count: int, step: int) -> list[dict[str, str]]:
    pairs = [(3 * n + step, 5 * n + 2 * step) for n in range(count)]
    return [{"question": f"What is {a} + {b} (series {step})?", "answer": str(a + b)} for a, b in pairs]


def exact(completion, answer, parser) -> float:
    text = completion[-1]["content"] if completion else ""
    said = (parser.parse_answer(completion) or "").strip().rstrip(".").replace(",", "")
    if text.count("<answer>") != 1 or "<think>" in text or re.fullmatch(r"[0-9]{1,9}(\.0+)?", said) is None:
        return 0.0
    return float(float(said) == float(answer))


def member(step: int, weight: float) -> vf.Environment:
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[exact], weights=[weight], parser=parser)
    data = Dataset.from_list(sums(50, step))
    return vf.SingleTurnEnv(dataset=data, system_prompt=SYSTEM, parser=parser, rubric=rubric)


def load_environment() -> vf.Environment:
    return vf.EnvGroup(envs=[member(7, 1.0), member(11, 0.5)], env_names=["seven", "eleven"])
