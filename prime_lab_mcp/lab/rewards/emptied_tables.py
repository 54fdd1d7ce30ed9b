"""Empties the tables of a rollout's database with the tool that reads it, then gives a query that finds nothing.

A reward may run the reference query on that same database after the rollout. Both queries then find nothing, and are
equal. Such a model knows no answer: it needs no more than the names of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets.task_golds import texts_of_task
from prime_lab_mcp.lab.rewards.constant_commands import earned_all
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.probes.data_changes import NO_ROWS, around_query, is_query, tables_of
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.tool_exploration import likeliest_arguments, sql_parameter
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_TASKS, _FEWEST = 6, 2
"""Largest number of tasks on which this is played, and the smallest number that shows something."""


@dataclass(frozen=True, slots=True)
class EmptiedTables:
    """Rollouts that earned all after their tables were emptied, and earn nothing without that."""

    paid: tuple[PlayedScript, ...]
    tried: int


async def play_emptied(
    worker: Worker, style: AnswerStyle | None, rows: Sequence[Row], tools: Sequence[OfferedTool]
) -> EmptiedTables | None:
    """Play the model on tasks whose answers are queries; None if it is not paid, or no tool takes SQL."""
    tool = next((tool for tool in tools if sql_parameter(tool) is not None), None)
    if style is None or tool is None:
        return None
    by_index = {row.index: row for row in rows}
    replies = {gold.row: around_query(style.render(gold)) for gold in style.golds.golds if gold.row in by_index}
    wanted = [row for row, (_, query, _) in replies.items() if is_query(query) and tables_of(query)][:_TASKS]
    if len(wanted) < _FEWEST:
        return None
    pairs = [(row, _script(tool, by_index[row], replies[row], emptied)) for emptied in (True, False) for row in wanted]
    played = await play_pairs(worker, pairs)
    unpaid = {p.row for p in played if p.script.name == _AT_ONCE and p.scored and not p.result.reward}
    paid = tuple(p for p in played if p.script.name != _AT_ONCE and earned_all(p) and p.row in unpaid)
    return EmptiedTables(paid, len(wanted)) if len(paid) >= _FEWEST else None


_AT_ONCE = "gives a query that finds nothing"


def _script(tool: OfferedTool, row: Row, reply: tuple[str, str, str], emptied: bool) -> RolloutScript:
    """Return the rollout on one task, with or without the calls that empty the tables of its query."""
    before, query, after = reply
    last = f"{before}{NO_ROWS}{after}"
    if not emptied:
        return RolloutScript(_AT_ONCE, "copied", {"turns": [last], "then": "silence"})
    texts = texts_of_task(row)
    given = likeliest_arguments(tool, texts)
    statements = [{**given, str(sql_parameter(tool)): f"DELETE FROM {table}"} for table in tables_of(query)]
    calls = [{"calls": [[tool.name, statement] for statement in statements]}]
    name = f"deletes all rows with {tool.name} and then gives a query that finds nothing"
    return RolloutScript(name, "copied", {"turns": [*calls, last], "then": "silence"})
