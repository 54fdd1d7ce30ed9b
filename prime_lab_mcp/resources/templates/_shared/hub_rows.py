"""Where the questions come from: a dataset of the Hugging Face Hub, at one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from shared_template.columns import value
from shared_template.shape import canonical

DATASET = "openai/gsm8k"
CONFIG: str | None = "main"
REVISION = "740312add88f781978c0658806c59bc2815b9866"
TRAIN_SPLIT = "train"
EVAL_SPLIT: str | None = "test"
TEST_SPLIT: str | None = None
"""A third split, neither trained on nor looked at meanwhile."""
METADATA_COLUMNS: tuple[str, ...] = ()
"""Other columns that the tasks carry, to select and to group by."""
HELD_OUT_OF = 10
"""Where the dataset has no split to hold out, one question in so many is, chosen by its text."""


def rows(split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, `train`, `eval` or `test`: each question once, none in two of them.

    Rows that cannot be read are left out, and questions that are answered in different ways. Raises ValueError where
    there is no third split.
    """
    if split == "test" and TEST_SPLIT is None:
        raise ValueError("there is no split test; there are: eval, train")
    source = {"eval": EVAL_SPLIT, "test": TEST_SPLIT}.get(split) or TRAIN_SPLIT
    found: dict[bytes, dict[str, Any] | None] = {}
    for key, row in _read(source):
        first = found.setdefault(key, row)
        if first is not None and first["answer"] != row["answer"]:
            found[key] = None
    others = {"train": (EVAL_SPLIT, TEST_SPLIT), "eval": (TEST_SPLIT,)}.get(split, ())
    held = {key for other in others if other is not None for key, _ in _read(other)}
    for key, kept in found.items():
        mine = split == "test" or EVAL_SPLIT is not None or _is_held_out(key) == (split == "eval")
        if kept is not None and mine and key not in held:
            yield kept


def _read(source: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    from datasets import load_dataset

    for raw in load_dataset(DATASET, CONFIG, split=source, revision=REVISION):
        row = canonical(raw)
        if row is not None:
            if METADATA_COLUMNS:
                row = {**row, "metadata": {name: value(raw, name) for name in METADATA_COLUMNS}}
            text = " ".join(row["question"].casefold().split())
            yield hashlib.sha256(text.encode("utf-8", "replace")).digest(), row


def _is_held_out(key: bytes) -> bool:
    return int.from_bytes(key[:4], "big") % HELD_OUT_OF == 0
