"""Where the questions come from: a dataset of the Hugging Face Hub, at one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

DATASET = "openai/gsm8k"
CONFIG: str | None = "main"
REVISION = "740312add88f781978c0658806c59bc2815b9866"
TRAIN_SPLIT = "train"
EVAL_SPLIT: str | None = "test"
PROMPT_COLUMNS = ("question",)
ANSWER_COLUMN = "answer"
HELD_OUT_OF = 10
"""Where the dataset has no split to hold out, one question in so many is, chosen by its text."""


def rows(split: str) -> Iterator[tuple[str, str]]:
    """Question and gold text of every row of a split."""
    from datasets import load_dataset

    source = EVAL_SPLIT if split == "eval" and EVAL_SPLIT is not None else TRAIN_SPLIT
    for row in load_dataset(DATASET, CONFIG, split=source, revision=REVISION):
        question = "\n\n".join(str(_value(row, column)).strip() for column in PROMPT_COLUMNS)
        if EVAL_SPLIT is not None or _held_out(question) == (split == "eval"):
            yield question, str(_value(row, ANSWER_COLUMN))


def _value(row: Mapping[str, Any], path: str) -> Any:
    head, _, rest = path.partition(".")
    return row[path] if path in row or not rest else row[head][rest]


def _held_out(question: str) -> bool:
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:4], "big") % HELD_OUT_OF == 0
