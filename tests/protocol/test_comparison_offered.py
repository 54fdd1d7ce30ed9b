"""A finished evaluation leads to its comparison with that of another model on the same files."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.verdict import judge_job
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.looked_up import remember_model
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.server.app import build_server
from tests.lab.evals.finished import episode, finished, mixed

pytestmark = [pytest.mark.anyio]
FIRST, SECOND = "eval-00000001", "eval-00000002"
PRIME = Endpoint("prime", "http://127.0.0.1:9/v1")


async def compared(lab: Lab) -> list[Any]:
    """The comparisons that the report of the second evaluation recommends."""
    async with Client(build_server(lab)) as client:
        told = (await client.call_tool("watch_run", {"id": SECOND})).structured_content
    assert told is not None
    return [one["arguments"] for one in told["next"] if (one["arguments"] or {}).get("view") == "compare"]


async def test_the_evaluation_of_another_model_is_offered_for_comparison(settings: Settings) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/small")
    finished(lab, mixed(), SECOND, model="owner/big")

    assert await compared(lab) == [{"eval": SECOND, "view": "compare", "other": FIRST}]


async def test_a_failed_evaluation_of_one_of_two_models_leads_to_their_comparison_first(settings: Settings) -> None:
    """The first call sorted the tasks, although the other model had passed on the same ones."""
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/big")
    finished(
        lab, [episode(task, float(task == 0)) for task in range(40) for _ in range(4)], SECOND, model="owner/small"
    )
    async with Client(build_server(lab)) as client:
        told = (await client.call_tool("watch_run", {"id": SECOND})).structured_content
    assert told is not None
    assert told["next"][0]["arguments"] == {"eval": SECOND, "view": "compare", "other": FIRST}


async def test_the_first_of_two_models_that_were_looked_up_leads_to_the_second(settings: Settings) -> None:
    """The first call published the environment for the model that happened to come first."""
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/small", endpoint=PRIME)
    for name in ("owner/small", "owner/big"):
        remember_model(lab, name)
    [job] = EvaluationJobs(lab).list()
    first = finished_outcome(lab, job, judge_job(lab, job)).next[0]
    assert (first.tool, (first.arguments or {})["model"]) == ("run_eval", "owner/big")
    finished(lab, mixed(), SECOND, model="owner/big", endpoint=PRIME)
    [second] = [one for one in EvaluationJobs(lab).list() if one.id == SECOND]
    then = finished_outcome(lab, second, judge_job(lab, second)).next
    assert then[0].arguments == {"eval": SECOND, "view": "compare", "other": FIRST}
    assert all(one.tool != "run_eval" for one in then)


@pytest.mark.parametrize("changes", [{"model": "owner/big"}, {"model": "owner/small", "source": "c" * 64}])
async def test_the_same_model_or_other_files_are_not_offered(settings: Settings, changes: dict[str, Any]) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, **changes)
    finished(lab, mixed(), SECOND, model="owner/big")

    assert await compared(lab) == []


async def test_an_evaluation_that_earned_nothing_is_mended_before_it_is_compared(settings: Settings) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/small")
    finished(lab, [episode(task, 0.0) for task in range(40) for _ in range(4)], SECOND, model="owner/big")

    assert await compared(lab) == []
