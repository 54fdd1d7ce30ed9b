"""Rows of a split as the table that verifiers takes."""

from __future__ import annotations

from datasets import Dataset

from shared_template.answers import ask, gold_of
from shared_template.rows import rows


def tasks(split: str) -> Dataset:
    """The questions of a split, `train` or `eval`. Rows whose gold cannot be read are left out."""
    found = ({"question": ask(row), "answer": gold_of(row)} for row in rows(split))
    return Dataset.from_list([row for row in found if row["answer"] is not None])
