"""Where the questions come from: JSON lines inside of this package, as the older environment gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def rows(split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split."""
    with (DATA / f"{split}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
