"""Where the problems come from: the Hub at one commit, or the packaged sample of the same shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Source = Literal["hub", "sample"]
Split = Literal["train", "test"]

DATASET = "EleutherAI/hendrycks_math"
REVISION = "21a5633873b6a120296cce3e2df9d5550074f4a3"
CONFIGS = (
    "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
    "precalculus",
)  # fmt: skip
SAMPLE = Path(__file__).parent / "data" / "sample.jsonl"
HELD_OUT_OF = 4
"""The sample is both splits: every fourth row is `test`, the others are `train`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`level` is 1 (easy) to 5, 0 where the dataset does not say. `solution` has the answer in its last box."""

    text: str
    solution: str
    level: int
    subject: str


def problems(source: Source, split: Split) -> Iterator[Problem]:
    """The problems of a split, each once. What was asked for is read, or this fails."""
    seen: set[str] = set()
    for row in _from_sample(split) if source == "sample" else _from_hub(split):
        text = str(row["problem"]).strip()
        key = " ".join(text.split())
        if key and key not in seen:
            seen.add(key)
            yield Problem(text, str(row["solution"]), _level(str(row["level"])), str(row["type"]))


def _level(text: str) -> int:
    digits = text.removeprefix("Level").strip()  # some rows have `Level ?`
    return int(digits) if digits.isdigit() else 0


def _from_sample(split: Split) -> Iterator[dict[str, Any]]:
    with SAMPLE.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if (number % HELD_OUT_OF == HELD_OUT_OF - 1) == (split == "test"):
                yield json.loads(line)


def _from_hub(split: Split) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset

    for config in CONFIGS:
        yield from load_dataset(DATASET, config, split=split, revision=REVISION)
