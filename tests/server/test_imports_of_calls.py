"""Which modules a server imports before its first answers. Each import delays one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.evals.conftest import write_environment

_CALL = """
import json, sys
import anyio
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.main import open_lab, settings
async def main():
    server = build_server(open_lab(settings(sys.argv[1], sys.argv[2])))
    await server.call_tool(sys.argv[3], json.loads(sys.argv[4]))
    await server._lab.close()
anyio.run(main)
print(json.dumps([name for name in sys.modules if name.startswith(("prime_lab_mcp.", "msgspec", "rich"))]))
"""
_LATER = (
    "msgspec",
    "rich",
    "prime_lab_mcp.lab.configs.plan",
    "prime_lab_mcp.lab.configs.resolve",
    "prime_lab_mcp.lab.distribution",
    "prime_lab_mcp.lab.hub.publish",
    "prime_lab_mcp.lab.loading",
    "prime_lab_mcp.lab.rewards",
    "prime_lab_mcp.lab.worker",
    "prime_lab_mcp.tools.planned_push",
    "prime_lab_mcp.tools.planned_submission",
)
"""What runs code, reads rollouts, plans configs, asks the platform or draws for people: no refusal and no
status of new files does."""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("workflow_status", {}),
        ("push_environment", {"environment": "sums_v1"}),
        ("submit_training", {"environment": "sums_v1"}),
    ],
)
def test_a_first_answer_that_runs_nothing_imports_nothing_that_runs(
    tool: str, arguments: dict[str, str], tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    write_environment(workspace)
    command = [sys.executable, "-c", _CALL, str(workspace), str(tmp_path / "state"), tool, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = json.loads(done.stdout)
    assert [name for name in imported if name in _LATER] == []
