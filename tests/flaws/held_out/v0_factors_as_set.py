"""Prime factors compared as sets, although each counts as often as it divides.

format: multi_answer
generation: v0
finding: reward-wrong-passes or reward-hackable, blocker

2, 3 is paid for 12, for 18 and for 72 alike: how often a prime divides, which is what is asked, does not matter.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "Factor the number into primes. List every prime as often as it divides the number, separated by commas, in "
    "<answer></answer> tags."
)


def factors(number: int) -> list[int]:
    """The primes of a number, each as often as it divides it."""
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found


def rows() -> Iterator[tuple[str, str]]:
    for number in range(8, 260):
        primes = factors(number)
        if len(primes) > len(set(primes)) > 1:
            yield f"What are the prime factors of {number}?", ", ".join(map(str, primes))


def final(completion) -> str:
    """The one answer after the thought of the last message."""
    last = completion if isinstance(completion, str) else (completion[-1]["content"] if completion else "")
    found = re.findall(r"<answer>([^<]*)</answer>", str(last or "").rpartition("</think>")[2])
    return found[0].strip() if len(found) == 1 else ""


def correct(completion, answer) -> float:
    said = {item.strip() for item in final(completion).split(",")}
    return float(said == {item.strip() for item in answer.split(",")})


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[correct], weights=[1.0])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        rubric=rubric,
    )
