"""Whether the stored replies of an evaluation are offered to be scored again."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.evals.rescore.offer import evaluation_to_rescore
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.worker.description import Row, Rows
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.finished import finished, mixed

pytestmark = pytest.mark.anyio


def tasks(*prompts: str, system: str = "", total: int | None = None) -> Rows:
    head = [{"role": "system", "content": system}] if system else []
    rows = [
        Row(n, f"k{n}", (*head, {"role": "user", "content": prompt}), "four", None, {})
        for n, prompt in enumerate(prompts)
    ]
    return Rows(tuple(rows), len(rows) if total is None else total)


async def offered(lab: Lab, present: Rows) -> bool:
    """Whether the one evaluation here, whose tasks all ask "2+2?", is offered for these tasks."""
    if not lab.ledger.jobs(lab.key):
        write_environment(lab.settings.workspace)
        finished(lab, mixed(), environment="sums_v1", model="other/model")
    return evaluation_to_rescore(lab, await lab.snapshot("sums_v1"), {}, present) is not None


async def test_replies_are_offered_where_the_tasks_ask_what_they_asked(lab: Lab) -> None:
    assert await offered(lab, tasks("2+2?", "3+3?"))
    assert await offered(lab, tasks(" 2+2?\n", system="Add."))


async def test_replies_are_not_offered_where_every_prompt_was_changed(lab: Lab) -> None:
    assert not await offered(lab, tasks("2+2? Answer in a tag.", "3+3?"))


async def test_a_small_sample_of_the_present_tasks_proves_no_change(lab: Lab) -> None:
    assert await offered(lab, tasks("5+5?", total=1000))


async def test_tasks_without_a_prompt_of_their_own_prove_no_change(lab: Lab) -> None:
    assert await offered(lab, Rows((Row(0, "k", (), "four", None, {}),), 1))
