"""What is on the Hub can be pulled to work on."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import create_environment, push_environment
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import Desk

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_what_was_pushed_is_pulled_file_by_file_under_the_name_that_was_asked_for(at: Desk) -> None:
    at.environment("plain")
    await at.call(push_environment.TOOL, environment="plain")
    pulled = await at.call(create_environment.TOOL, name="mine", hub="rehearsal/plain")
    assert (pulled.status, pulled.data["path"]) == ("passed", "environments/mine")
    original, copy = await at.lab.snapshot("plain"), await at.lab.snapshot("mine")
    assert copy.files == original.files
    assert pulled.data["files"] == sorted(original.files)


async def test_what_is_not_on_the_hub_is_told_and_leaves_nothing(at: Desk) -> None:
    with pytest.raises(LabError) as refused:
        await at.call(create_environment.TOOL, name="other", hub="rehearsal/nothing-here")
    assert "rehearsal/nothing-here" in refused.value.message
    assert not (at.lab.workspace.environments / "other").exists()


@pytest.mark.slow
async def test_a_pulled_folder_leaves_the_way_to_the_config_that_trains_on_it_as_it_was_pulled(
    at: Desk,
) -> None:
    calls = Calls(at.lab, TOOLS, References())
    hub = "primeintellect/reverse-text@0.2.0"
    pulled = await calls.execute("create_environment", {"name": "lines", "hub": hub})
    assert pulled.status == "passed", pulled.findings
    made = await calls.execute("write_training_config", {"environments": [hub], "steps": 20})
    config = made.data["path"]
    await calls.execute("check_training_config", {"path": config})

    async def assert_the_config_comes_first() -> None:
        status = await calls.execute("workflow_status", {})
        first = status.next[0]
        assert (first.tool, first.arguments) == ("submit_training", {"config": config}), status.next
        assert hub in first.why
        (gate,) = (g for g in status.data["environments"][0]["gates"] if g["tool"] == "submit_training")
        assert "as_pulled" in gate["why"]

    await assert_the_config_comes_first()
    (module,) = (at.lab.workspace.environments / "lines").rglob("__init__.py")
    module.write_text(module.read_text(encoding="utf-8") + "\nMORE_LINES = ()\n", encoding="utf-8")
    await assert_the_config_comes_first()
    tested = await calls.execute("test_reward", {"environment": "lines", "examples": 2, "probes": False})
    assert ("submit_training", {"config": config}) in [(one.tool, one.arguments) for one in tested.next], tested.next
