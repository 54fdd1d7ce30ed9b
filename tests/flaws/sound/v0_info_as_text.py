"""The target stands in `info`, which is the text of an object.

format: numeric
generation: v0

The answer column is empty; the reward parses info and compares numbers.
"""

import json
import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Give the number inside <answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A crate holds {n + 3} boxes of {n % 7 + 4} jars. How many jars are in it?", str((n + 3) * (n % 7 + 4))


def matches_target(completion, info, parser) -> float:
    target = (json.loads(info) if isinstance(info, str) else info)["target"]
    text = completion[-1]["content"] if completion else ""
    said = (parser.parse_answer(completion) or "").strip().rstrip(".").replace(",", "")
    if text.count("<answer>") != 1 or "<think>" in text or re.fullmatch(r"[0-9]{1,9}(\.0+)?", said) is None:
        return 0.0
    return float(float(said) == float(target))


def load_environment() -> vf.Environment:
    table = [{"question": question, "info": json.dumps({"target": answer})} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[matches_target], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
