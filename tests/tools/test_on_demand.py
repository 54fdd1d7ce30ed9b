"""Tools are imported when they are first used, so that a server at rest holds only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import WORKFLOW
from prime_lab_mcp.tools.on_demand import ToolsOnDemand
from prime_lab_mcp.tools.registry import TOOLS
from tests.attacks.proven import NAME, record
from tests.lab.evals.conftest import write_environment

_CALLS = """
import asyncio, sys
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.on_demand import ToolsOnDemand
from pathlib import Path

async def main():
    lab = Lab(Settings(workspace=Path(sys.argv[1]), state_dir=Path(sys.argv[1], "state")))
    report = await Calls(lab, ToolsOnDemand(), References()).execute("read_reference", {"topic": "no such page"})
    await lab.close()
    assert report.findings, report
    print(*(name for name in sys.modules if name.startswith("prime_lab_mcp.tools.")))

asyncio.run(main())
"""


def test_a_call_imports_its_own_tool_and_none_of_the_large_ones(tmp_path: object) -> None:
    ended = subprocess.run([sys.executable, "-c", _CALLS, str(tmp_path)], capture_output=True, text=True, check=True)
    imported = {name.rsplit(".", 1)[1] for name in ended.stdout.split()}
    assert "read_reference" in imported
    assert not imported & {"test_reward", "run_eval", "inspect_dataset", "submit_training"}


def test_every_tool_is_there_by_its_name_and_no_other() -> None:
    tools = ToolsOnDemand()
    assert (tuple(tools), len(tools), "preflight" in tools, "nothing" in tools) == (
        WORKFLOW,
        len(WORKFLOW),
        True,
        False,
    )
    assert not tools.is_imported("preflight")
    assert tools["preflight"].name == "preflight"
    assert tools.is_imported("preflight")
    with pytest.raises(KeyError):
        tools["nothing"]


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["push_environment", "submit_training", "run_eval"])
async def test_a_refusal_recommends_the_same_calls_whether_their_tools_are_imported_or_not(lab: Lab, tool: str) -> None:
    write_environment(lab.workspace.root)
    await record(lab, "check_environment")
    given = {"environment": NAME, **({"model": "m", "endpoint": "http://127.0.0.1:9/v1"} if tool == "run_eval" else {})}
    reports = [await Calls(lab, tools, References()).execute(tool, given) for tools in (ToolsOnDemand(), TOOLS)]
    assert reports[0].next == reports[1].next
    assert reports[0].next
