"""Finds the tasks that two environments share by the user's prompt, and never by position.

A port may hold out, drop or sort rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets import golds as gold_answers
from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of
from prime_lab_mcp.lab.worker.description import Row, Rows


@dataclass(frozen=True, slots=True)
class MatchedTasks:
    """The tasks that two environments share.

    `pairs` maps a task's index to its index in the other environment. `unmatched` are the rows without a counterpart.
    `total` is the number of tasks of this environment, of which both may hold a sample; None if it is not known.
    """

    pairs: dict[int, int]
    unmatched: tuple[Row, ...]
    total: int | None = None


def match_tasks(rows: Sequence[Row], others: Sequence[Row], total: int | None = None) -> MatchedTasks:
    """Match rows with the same normalised user prompt. If several rows have this prompt, the answer must match too.

    `rows` are all tasks of this environment, or a sample of its `total`.
    """
    there: dict[str, list[Row]] = {}
    for row in others:
        there.setdefault(_prompt_key(row), []).append(row)
    pairs: dict[int, int] = {}
    unmatched = []
    for row in rows:
        candidates = there.get(_prompt_key(row), [])
        if len(candidates) > 1:
            candidates = [other for other in candidates if _answer_key(other) == _answer_key(row)]
        if candidates:
            pairs[row.index] = candidates[0].index
        else:
            unmatched.append(row)
    return MatchedTasks(pairs, tuple(unmatched), total)


def _prompt_key(row: Row) -> str:
    return gold_answers.normalised_text(prompt_of(row))


def _answer_key(row: Row) -> str:
    return gold_answers.normalised_text(gold_answers.gold_text(row.answer))


def absent_tasks(rows: Sequence[Row], total: int | None, others: Rows) -> int:
    """The number of tasks of the other environment that this one lacks: their prompts, or by how many it has fewer
    where only samples are known."""
    if total is None or others.total is None:
        return 0
    if total > len(rows) or others.total > len(others.rows):
        return max(0, others.total - total)
    here = {_prompt_key(row) for row in rows}
    return max(others.total - total, sum(_prompt_key(row) not in here for row in others.rows), 0)


def first_messages(row: Row) -> list[tuple[str, str]]:
    """The messages with which a task begins, as role and normalised text."""
    return [(str(m.get("role")), gold_answers.normalised_text(message_text(m))) for m in row.prompt]
