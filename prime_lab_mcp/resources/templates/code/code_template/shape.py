"""What a row of the source dataset becomes: a task, its tests and, where it has one, a solution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from code_template.columns import question
from code_template.programs import FENCE
from code_template.sources import shown, solution_in, tests_in

PROMPT_COLUMNS: tuple[str, ...] = ("question",)
ANSWER_COLUMN = "tests"


def canonical(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row with its tests under `answer`; None when it asks nothing or has no tests that can be run.

    The task says what the tests call, and shows one of several asserts. It holds no code fence, so that to repeat it is
    not to answer it.
    """
    asked, solution = question(row, PROMPT_COLUMNS).replace(FENCE, "    "), solution_in(row)
    spec = tests_in(row, ANSWER_COLUMN, solution)
    if not asked or spec is None:
        return None
    starter = row.get("starter_code")
    begins = f"Begin with:\n\n{starter.strip()}" if isinstance(starter, str) and starter.strip() else ""
    said = [text for text in (asked, begins, *shown(spec)) if text]
    known = {"solution": solution} if solution is not None else {}
    return {"question": "\n\n".join(said), "answer": spec, **known}
