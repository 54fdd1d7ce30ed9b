"""Where the problems come from: the Hub at one commit, the packaged sample, or a file of the same shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Source = Literal["hub", "sample"]
Split = Literal["train", "test"]

DATASET, CONFIG = "openai/gsm8k", "main"
REVISION = "740312add88f781978c0658806c59bc2815b9866"
SAMPLE = Path(__file__).parent / "data" / "sample.jsonl"
HELD_OUT_OF = 4
"""A single file is both splits: every fourth row is `test`, the others are `train`."""


def rows(source: Source, split: Split, data_file: str | None) -> Iterator[tuple[str, str]]:
    """Question and full solution of every row of a split. What was asked for is read, or this fails."""
    if data_file is not None:
        return _from_file(Path(data_file), split)
    return _from_file(SAMPLE, split) if source == "sample" else _from_hub(split)


def _from_file(path: Path, split: Split) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(line for line in lines if line.strip()):
            if (number % HELD_OUT_OF == HELD_OUT_OF - 1) == (split == "test"):
                row: dict[str, Any] = json.loads(line)
                yield row["question"], row["answer"]


def _from_hub(split: Split) -> Iterator[tuple[str, str]]:
    from datasets import load_dataset

    for row in load_dataset(DATASET, CONFIG, split=split, revision=REVISION):
        yield row["question"], row["answer"]
