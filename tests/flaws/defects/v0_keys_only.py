"""Checks that the object has the right keys.

format: json
generation: v0
finding: reward-wrong-passes, blocker

Any values will do.
"""

import json
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = 'Extract the person as a JSON object with the keys "name", "age" and "city", in <answer></answer> tags.'


NAMES = (
    "Ana Ruiz",
    "Bo Lind",
    "Chen Wei",
    "Dora Nagy",
    "Emil Kraus",
    "Fatou Sow",
    "Gil Peres",
    "Hana Sato",
    "Ivo Babic",
    "Jo Park",
)
CITIES = ("Lima", "Oslo", "Wuhan", "Pecs", "Graz", "Dakar", "Braga", "Kobe", "Split", "Busan")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        name, city, age = NAMES[n % 10], CITIES[n // 10], 20 + n % 47
        gold = json.dumps({"name": name, "age": age, "city": city})
        yield f"{name}, who turned {age} last week, has lived in {city} since {1990 + n % 30}.", gold


def correct(completion, answer, parser) -> float:
    try:
        said = json.loads(parser.parse_answer(completion) or "")
        return float(said.keys() == json.loads(answer).keys())
    except (ValueError, AttributeError):
        return 0.0


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
