"""Where the questions come from: JSON lines inside of this package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def rows(split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split: `train`, `eval`, or `test` where there is a third one. Raises ValueError for another."""
    path = DATA / f"{split}.jsonl"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in DATA.glob("*.jsonl")))
        raise ValueError(f"there is no split {split}; there are: {known}")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
