"""The environment: one question, one reply."""

from __future__ import annotations

from typing import Any

import verifiers as vf
from datasets import Dataset

from v0_single_turn_template.answers import FORMAT, ask, gold_of
from v0_single_turn_template.rewards import V0SingleTurnTemplateParser, rubric
from v0_single_turn_template.rows import rows

INSTRUCTION = "Answer the question. Think step by step where it helps."


def load_environment(num_train_examples: int = -1, num_eval_examples: int = -1) -> vf.Environment:
    """The environment, with the first so many tasks of each split; -1 for all of them."""
    train, held_out = _tasks("train", num_train_examples), _tasks("eval", num_eval_examples)
    parser = V0SingleTurnTemplateParser()
    return vf.SingleTurnEnv(
        dataset=train,
        eval_dataset=held_out if len(held_out) else None,
        system_prompt=f"{INSTRUCTION}\n{FORMAT}",
        parser=parser,
        rubric=rubric(parser),
    )


def _tasks(split: str, number: int) -> Dataset:
    """The questions of a split. Rows whose gold cannot be read are left out."""
    found: list[tuple[str, Any]] = [(ask(row), gold) for row in rows(split) if (gold := gold_of(row)) is not None]
    found = found if number < 0 else found[:number]
    if any(isinstance(gold, list) for _, gold in found):  # a column holds one type
        found = [(asked, gold if isinstance(gold, list) else [gold]) for asked, gold in found]
    return Dataset.from_dict({"question": [asked for asked, _ in found], "answer": [gold for _, gold in found]})
