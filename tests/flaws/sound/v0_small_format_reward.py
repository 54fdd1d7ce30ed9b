"""XMLParser's format reward, whose floor is not zero, at a weight of 0.1.

format: numeric
generation: v0

Plain text earns 0.02; the right answer earns 1.1.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Think it through, then put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A box holds {n} red and {3 * n + 7} blue marbles. How many marbles are in it?", str(4 * n + 7)


def correct(completion, answer, parser) -> float:
    text = completion[-1]["content"] if completion else ""
    if text.count("<answer>") != 1 or "<think>" in text:
        return 0.0
    said = (parser.parse_answer(completion) or "").strip().rstrip(".").replace(",", "")
    return float(re.fullmatch(r"-?[0-9]{1,15}(\.0+)?", said) is not None and float(said) == float(answer))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct, parser.get_format_reward_func()], weights=[1.0, 0.1], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
