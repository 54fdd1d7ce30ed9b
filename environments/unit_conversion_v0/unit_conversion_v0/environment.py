"""The environment: dataset, parser, rubric, and the function that verifiers calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import verifiers as vf
from datasets import Dataset

from unit_conversion_v0.answers import read, right

DATA = Path(__file__).parent / "data"
SYSTEM = (
    "Convert the quantity. Work it out step by step, then give the number without its unit, to four digits or more, "
    "in answer tags at the very end: <answer>NUMBER</answer>"
)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.S | re.I)


class FinalAnswerParser(vf.XMLParser):
    """XMLParser takes the first tag of a message. This one wants the last word: one answer, outside of any thought."""

    def __init__(self) -> None:
        super().__init__(["answer"])

    def parse_answer(self, completion: Any) -> str | None:
        """The one answer of the last reply; None when there is none, or several that differ."""
        # A plain Parser gives the whole text of the last reply.
        said = _THOUGHT.sub("", vf.Parser().parse_answer(completion) or "")
        found = re.findall(r"<answer>([^<]*)</answer>", said)
        broken = said.count("<answer>") != len(found) or said.count("</answer>") != len(found)
        answers = {text.strip() for text in found if text.strip()}
        return answers.pop() if len(answers) == 1 and not broken else None


async def correct_answer(completion: Any, answer: str, parser: vf.Parser) -> float:
    """1 when the number is within a relative 0.001 of the gold."""
    found = parser.parse_answer(completion)
    return float(found is not None and right(found, answer))


async def answer_format(completion: Any, parser: vf.Parser) -> float:
    """1 when the reply gives one readable number in answer tags, right or wrong.

    XMLParser brings a format reward of its own. It pays 0.2 for an empty reply and most for one that begins with the
    tag, which teaches not to reason; that is why this is written out.
    """
    found = parser.parse_answer(completion)
    return float(found is not None and read(found) is not None)


def load_environment() -> vf.Environment:
    """The environment: 120 conversions to train on, 30 held out."""
    parser = FinalAnswerParser()
    return vf.SingleTurnEnv(
        dataset=_rows("train"),
        eval_dataset=_rows("eval"),
        system_prompt=SYSTEM,
        parser=parser,
        rubric=vf.Rubric(funcs=[correct_answer, answer_format], weights=[1.0, 0.1], parser=parser),
    )


def _rows(split: str) -> Dataset:
    with (DATA / f"{split}.jsonl").open(encoding="utf-8") as lines:
        return Dataset.from_list([json.loads(line) for line in lines])
