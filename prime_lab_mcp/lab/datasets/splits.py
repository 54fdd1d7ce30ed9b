"""Which split is what, by its name. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

TRAIN = ("train", "training")
HELD = ("validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation")
_IN_NAME = re.compile(rf"(?:^|[-_. ])({'|'.join((*TRAIN, *HELD))})(?=[-_. ]|$)", re.I)


def split_in(name: str) -> str | None:
    """The split that a name of a file or folder tells: `train` of `train-00000-of-00002.parquet`."""
    found = _IN_NAME.search(name)
    return found[1].lower() if found else None


def choose(names: Sequence[str], split: str | None, held: str | None) -> tuple[str, str | None]:
    """The split to train on and the one held out, by what was asked for or by their names. Raises BadInput."""
    for asked in (split, held):
        if asked is not None and asked not in names:
            raise BadInput(
                f"there is no split {quote(asked, 80)}",
                fix=f"Name one of: {', '.join(quote(n, 60)[1:-1] for n in names[:40])}.",
                code="unknown-split",
            )
    if split is not None and split == held:
        raise BadInput(
            f"split and eval_split are both {quote(split, 80)}",
            fix="Name two, or leave eval_split out.",
            code="same-split",
        )
    main = split or next((n for n in names if n.lower() in TRAIN and n != held), None)
    main = main or next((n for n in names if n != held), names[0])
    return main, held or next((n for wanted in HELD for n in names if n.lower() == wanted and n != main), None)
