"""Reads the most frequent reference answer of all tasks of an environment, with which the verdict on an evaluation
compares the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.distribution.floor import FrequentAnswer, frequent_answer
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.rollouts.conversation import gold_of
from prime_lab_mcp.lab.worker.description import SAMPLED_TASKS, Row


async def all_tasks_frequent_answer(env: LoadedEnvironment, first: Sequence[Row]) -> FrequentAnswer | None:
    """Return the most frequent reference answer of all tasks, or of a sample of `SAMPLED_TASKS` of them.

    None if the answers are not labels, or if the tasks were not counted: those of an infinite taskset are made one by
    one. `first` is a sample of the tasks. The others are read only if the answers of the sample may be labels.
    """
    if env.loaded.tasks is None or env.loaded.infinite or frequent_answer(_golds(first, env.api)) is None:
        return None
    rows = first
    if len(first) < min(env.loaded.tasks, SAMPLED_TASKS):
        rows = (await env.worker.rows(limit=SAMPLED_TASKS, seed=0)).rows
    return frequent_answer(_golds(rows, env.api))


def _golds(rows: Sequence[Row], api: Api) -> list[str]:
    golds = (gold_of(_task_data(row, api)) for row in rows)
    return [gold for gold in golds if gold is not None]


def _task_data(row: Row, api: Api) -> Mapping[str, Any]:
    """Return the fields that a rollout of the task stores: those of v0 are `info` and `answer`."""
    if api == "v1":
        return row.fields
    info = row.info if isinstance(row.info, Mapping) else {}
    return {**info, "answer": row.answer}
