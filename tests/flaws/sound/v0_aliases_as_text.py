"""Aliases stand in the answer column as the text of a list.

format: multi_answer
generation: v0

The reward parses the list and accepts any alias, compared whole and without case.
"""

import ast
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Name the river inside <answer> tags, and nothing else there."


RIVERS = (
    "Paris|Seine|River Seine Rome|Tiber|Tevere Vienna|Danube|Donau London|Thames|River Thames Cairo|Nile|River Nile "
    "Prague|Vltava|Moldau Warsaw|Vistula|Wisla Bonn|Rhine|Rhein Lyon|Rhone|River Rhone Turin|Po|River Po "
    "Kyiv|Dnieper|Dnipro Lisbon|Tagus|Tejo Seville|Guadalquivir|Betis Dresden|Elbe|Labe Florence|Arno|River Arno "
    "Bordeaux|Garonne|Garona Zaragoza|Ebro|Iberus Baghdad|Tigris|Dijlah Basel|Upper Rhine|Oberrhein Porto|Douro|Duero"
)


def rows() -> Iterator[tuple[str, str]]:
    entries = []
    words = RIVERS.replace("River ", "River_").replace("Upper ", "Upper_").split()
    for line in words:
        city, *names = line.split("|")
        entries.append((f"Which river flows through {city}?", str([n.replace("_", " ") for n in names])))
    yield from entries


def any_alias(completion, answer, parser) -> float:
    text = completion[-1]["content"] if completion else ""
    if text.count("<answer>") != 1 or "<think>" in text:
        return 0.0
    said = (parser.parse_answer(completion) or "").strip().strip(".").casefold()
    return float(said in [alias.casefold() for alias in ast.literal_eval(answer)])


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[any_alias], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(table), system_prompt=SYSTEM, parser=parser, rubric=rubric)
