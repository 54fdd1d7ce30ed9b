"""The environment: one question, one reply."""

from __future__ import annotations

from typing import Any

import verifiers as vf
from datasets import Dataset

from v0_single_turn_template.answers import FORMAT, ask, gold_of
from v0_single_turn_template.rewards import V0SingleTurnTemplateParser, rubric
from v0_single_turn_template.rows import rows
from v0_single_turn_template.selection import selected

INSTRUCTION = "Answer the question. Think step by step where it helps."


def load_environment(
    num_train_examples: int = -1, num_eval_examples: int = -1, where: dict[str, list[Any]] | None = None
) -> vf.Environment:
    """The environment, with the first so many tasks of each split; -1 for all of them.

    `where` takes only tasks whose metadata have one of these values: {"level": [1, 2]}.
    """
    train = _tasks("train", num_train_examples, where or {})
    held_out = _tasks("eval", num_eval_examples, where or {})
    parser = V0SingleTurnTemplateParser()
    return vf.SingleTurnEnv(
        dataset=train,
        eval_dataset=held_out if len(held_out) else None,
        system_prompt=f"{INSTRUCTION}\n{FORMAT}",
        parser=parser,
        rubric=rubric(parser),
    )


def _tasks(split: str, number: int, where: dict[str, list[Any]]) -> Dataset:
    """The questions of a split, with the dataset's other columns as info. Unreadable golds are left out."""
    found: list[tuple[str, Any, dict[str, Any]]] = []
    for row in selected(rows(split), where):
        gold, metadata = gold_of(row), row.get("metadata") or {}
        if gold is not None:
            found.append((ask(row), gold, metadata))
    found = found if number < 0 else found[:number]
    if any(isinstance(gold, list) for _, gold, _ in found):  # a column holds one type
        found = [(asked, gold if isinstance(gold, list) else [gold], info) for asked, gold, info in found]
    columns = {"question": [asked for asked, _, _ in found], "answer": [gold for _, gold, _ in found]}
    return Dataset.from_dict(
        columns | ({"info": [info for _, _, info in found]} if any(i for _, _, i in found) else {})
    )
