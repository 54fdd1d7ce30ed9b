"""From a dataset in the shape of a public one to an environment that passes every free step, for each template."""

from __future__ import annotations

import json

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.templates.public_shapes import FITTING, NAMED, Rows

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.usefixtures("shared_interpreters")]
V0_KINDS = ("gsm8k", "mmlu", "squad", "xlam")
"""One of each way to answer; test_v0_single_turn.py scores the golds of every kind on the older API."""
WITH_TOOLS = ("tool_use", "v0_tools", "v0_stateful_tools", "sandboxed")
"""Templates whose tools only help: these questions can be answered without a call, and test_reward says so. These rows
bring no files for a sandbox, so any command counts there; test_reward knows this only where Podman can play it."""
IN_CONTAINERS = ("sandboxed",)
"""Templates whose solutions are scored unplayed, with a warning, where Podman works and their image cannot be had."""


async def proven(lab: Lab, rows: Rows, **asked: object) -> dict[str, object]:
    """Create, check and test; every step must pass, with no gold unpaid and nothing else to warn of."""
    true = {"paid-without-tool"} if asked.get("template") in WITH_TOOLS else set()
    true |= {"reward-partly-tested"} if asked.get("template") in IN_CONTAINERS else set()
    (lab.workspace.root / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    calls = Calls(lab, TOOLS, References())
    created = await calls.execute("create_environment", {"name": "made", "dataset": "train.jsonl", **asked})
    assert created.status == "passed", (created.summary, created.findings)
    for step in ("check_environment", "test_reward"):
        report = await calls.execute(step, {"environment": "made"})
        flaws = [f for f in report.findings if f.severity != "info" and f.code not in true]
        assert (report.status, flaws) == ("passed", []), (step, report.summary)
    assert report.data["gold_pass_rate"] == 1.0
    return dict(created.data)


@pytest.mark.rotate(share=4)
@pytest.mark.parametrize("dataset", sorted(FITTING))
async def test_a_fitting_dataset_becomes_an_environment_that_passes_unchanged(lab: Lab, dataset: str) -> None:
    kind, rows = FITTING[dataset]
    made = await proven(lab, rows)
    assert (made["template"], made["api"]) == (kind, "v1")
    assert sum(made["rows"].values()) == len(rows)  # type: ignore[attr-defined]


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize("dataset", V0_KINDS)
async def test_the_same_dataset_becomes_an_environment_of_the_older_api(lab: Lab, dataset: str) -> None:
    kind, rows = FITTING[dataset]
    made = await proven(lab, rows, api="v0")
    assert (made["template"], made["api"]) == (kind, "v0")


@pytest.mark.rotate(share=3)
@pytest.mark.parametrize("template", NAMED)
async def test_a_template_that_is_named_takes_rows_that_fit_it(lab: Lab, template: str) -> None:
    made = await proven(lab, NAMED[template], template=template)
    assert made["template"] == template
