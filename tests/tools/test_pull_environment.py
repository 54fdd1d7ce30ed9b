"""What is on the Hub can be pulled to work on."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.tools import create_environment, push_environment
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
