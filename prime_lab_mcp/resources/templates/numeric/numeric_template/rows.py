"""Where the questions come from: JSON lines inside of this package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parent / "data"


def rows(split: str) -> Iterator[tuple[str, str]]:
    """Question and gold text of every row of a split."""
    with (DATA / f"{split}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["question"], row["answer"]
