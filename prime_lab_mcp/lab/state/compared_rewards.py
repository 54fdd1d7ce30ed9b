"""Records comparisons of two environments' rewards, so that the question of a push can name the fullest one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Verdict
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

COMPARED = "compare_rewards"
"""The tool of the ledger rows. No gate reads them: a difference does not say which of the two rewards is wrong."""

EQUAL_VERDICTS = ("equal", "equal-where-reached")
"""Verdicts of comparisons that found no completion with different shares."""


def record_comparison(ledger: Ledger, workspace: str, snapshot: Snapshot, data: Mapping[str, Any]) -> None:
    """Record a comparison of these files: `environment`, `verdict`, `completions`, `differ` and `verifiers`.

    It has passed if all components were found equal, whether or not every task was compared.
    """
    status: Verdict = "passed" if _every_component_equal(data) else "failed"
    ledger.record(
        Evidence(COMPARED, status, workspace, snapshot.name, snapshot.source, snapshot.content, data=dict(data))
    )


def _every_component_equal(data: Mapping[str, Any]) -> bool:
    """Whether both rewards are equal, and nothing but tasks that have a counterpart was left out."""
    verdict = str(data.get("verdict"))
    reached = data.get("unexercised") == 0 and data.get("unmatched_tasks") == 0
    return verdict == "equal" or (verdict in EQUAL_VERDICTS and reached)


def comparison_sentence(ledger: Ledger, workspace: str, snapshot: Snapshot) -> str:
    """Return a sentence about the comparison of these files with most completions, for the question of a push; empty
    without one. Another comparison of these files that found otherwise is named too."""
    every = ledger.evidence(workspace, tool=COMPARED, source=snapshot.source)
    if not every:
        return ""
    rows = [row for row in every if row.data.get("environment") == every[0].data.get("environment")]
    fullest = max(rows, key=lambda row: (_completions(row), row.id))
    others = [row for row in rows if _found(row) != _found(fullest)]
    which = "the last comparison" if len(rows) == 1 else f"the fullest of {len(rows)} comparisons"
    contrary = f" Another one of these files found that {_clause(others[0])}." if others else ""
    return f" By {which}, {_clause(fullest)}.{contrary}"


def _completions(row: Evidence) -> int:
    number = row.data.get("completions")
    return number if isinstance(number, int) else 0


def _found(row: Evidence) -> str:
    """What a comparison found, whatever its size: the same pay, another pay, or nothing."""
    verdict = str(row.data.get("verdict"))
    return "equal" if verdict in EQUAL_VERDICTS else verdict


def _clause(row: Evidence) -> str:
    """A clause about what one comparison found, with what it did not compare and what else differs."""
    name, completions = quote(str(row.data.get("environment")), 80), row.data.get("completions")
    number = count(completions, "completion") if isinstance(completions, int) else "its completions"
    sentence = {
        "equal": f"it pays the same as {name} for {number} tried, also by each component that pays something",
        "equal-where-reached": (f"it pays the same as {name} for {number} tried{_reached(row)}"),
        "not-compared": f"too little could be compared with {name} to call it equal",
    }.get(str(row.data.get("verdict")), f"{row.data.get('differ')} of {number} earned something else than in {name}")
    absent = row.data.get("absent_tasks")
    missing = f"; {count(absent, 'task')} of {name} are missing here" if isinstance(absent, int) and absent else ""
    late = row.data.get("unscored")
    missing += f"; {count(late, 'completion')} had no reward in time" if isinstance(late, int) and late else ""
    return f"{sentence}{missing}{_other_conversation(row, name)}"


def _reached(row: Evidence) -> str:
    """A clause about the tasks and components that a comparison reached, as far as its record says."""
    compared, total, unearned = (row.data.get(key) for key in ("compared_tasks", "total_tasks", "unexercised"))
    if not isinstance(compared, int):
        return ", which did not reach every component and task"
    of_all = f"of {count(compared, 'task')} of an unknown number"
    if isinstance(total, int):
        of_all = f"of {compared:,} of its {count(total, 'task')}"
    parts = count(unearned, "component") if isinstance(unearned, int) and unearned else ""
    return f" {of_all}" + (f"; none of them earned {parts}" if parts else "")


def _other_conversation(row: Evidence, name: str) -> str:
    """A clause about what the model reads otherwise than in the environment `name`; empty if nothing was seen."""
    starts, tasks, replies = (row.data.get(key) for key in ("other_starts", "tasks", "other_replies"))
    said = []
    if isinstance(starts, int) and starts:
        said.append(
            f"{starts} of {count(tasks if isinstance(tasks, int) else starts, 'task')} begin with other messages"
        )
    if isinstance(replies, int) and replies:
        said.append(f"the environment answers otherwise in {count(replies, 'rollout')}")
    return f"; but {' and '.join(said)} than in {name} (conversation-differs)" if said else ""
