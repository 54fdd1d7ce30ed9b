"""Where the questions come from: JSON lines inside of this package, the right option apart from the wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from science_choice.options import Question

Split = Literal["train", "test"]
DATA = Path(__file__).parent / "data"


def questions(split: Split) -> Iterator[Question]:
    """The questions of a split."""
    with (DATA / f"{split}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Question(row["question"], row["right"], tuple(row["wrong"]), row["subject"])
