"""Converts the rows of a v0 environment to data of v1 tasks: prompt, system prompt, answer, info and other columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.worker.description import Row

MOST_ROWS = 50_000
"""Maximum number of rows of a split that are packaged with a ported environment."""


@dataclass(frozen=True, slots=True)
class PortedRows:
    """The rows of both splits as JSON lines. A system prompt that all rows share is in `system_prompt`, not in the
    lines.

    `counts` are the packaged rows of each split, `totals` all rows of the old split, `columns` what `where` selects by.
    """

    texts: Mapping[str, str]
    counts: Mapping[str, int]
    totals: Mapping[str, int]
    system_prompt: str | None
    answer_type: str
    columns: tuple[str, ...]


def port_rows(splits: Mapping[str, Sequence[Row]], totals: Mapping[str, int]) -> PortedRows:
    """Convert rows to task data. `totals` has the number of rows of each split of the old environment."""
    data = {split: [_task_data(row) for row in rows] for split, rows in splits.items() if rows}
    every = [d for rows in data.values() for d in rows]
    prompts = {d.get("system_prompt") for d in every}
    shared = prompts.pop() if len(prompts) == 1 else None
    if shared is not None:
        for d in every:
            del d["system_prompt"]
    kinds = {type(d["answer"]) for d in every if "answer" in d}
    has_one_type = len(kinds) == 1 and kinds <= {str, int, float, bool}
    return PortedRows(
        {split: "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in rows) for split, rows in data.items()},
        {split: len(rows) for split, rows in data.items()},
        dict(totals),
        shared,
        kinds.pop().__name__ if has_one_type else "Any",
        tuple(sorted({name for d in every for name in (*d.get("metadata", {}), *_plain(d.get("info", {})))})),
    )


def _plain(info: Mapping[str, Any]) -> list[str]:
    """The names in the info of a row whose values a config can name."""
    return [name for name, value in info.items() if isinstance(value, str | int | float | bool)]


def _task_data(row: Row) -> dict[str, Any]:
    messages = [dict(m) for m in row.prompt]
    data: dict[str, Any] = {}
    if messages and messages[0].get("role") == "system" and isinstance(messages[0].get("content"), str):
        data["system_prompt"] = messages.pop(0)["content"]
    is_single = len(messages) == 1 and messages[0].get("role") == "user" and isinstance(messages[0].get("content"), str)
    data["prompt"] = messages[0]["content"] if is_single else [_message(m) for m in messages]
    if row.answer is not None:
        data["answer"] = row.answer
    if isinstance(row.info, Mapping) and row.info:
        data["info"] = dict(row.info)
    others = {k: v for k, v in row.fields.items() if k not in ("question", "answer", "info", "prompt")}
    if "question" in row.fields and row.fields["question"] not in (messages[-1].get("content") if messages else None,):
        others["question"] = row.fields["question"]
    if row.group is not None:
        others["task"] = row.group
    if others:
        data["metadata"] = others
    return data


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of a prompt to the v1 format, in which a tool call has no nested `function` table."""
    converted = dict(message)
    if converted.get("tool_calls"):
        converted["tool_calls"] = [{**c, **c["function"]} if "function" in c else c for c in converted["tool_calls"]]
        for call in converted["tool_calls"]:
            call.pop("function", None)
    return converted
