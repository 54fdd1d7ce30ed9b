"""Every example environment passes every free step, through the call path and without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.conftest import EXAMPLES

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("shared_interpreters")]
SLOW = {
    "python_functions": "each completion runs in processes of its own",
    "unit_conversion_v0": "its own interpreter",
    "competition_math": "comparisons in processes of their own",
    "store_lookup": "a tool server for each rollout",
    "shop_orders": "a tool server and the solutions",
    "guess_word": "several turns for each rollout",
}
NAMES = [
    pytest.param(p.name, marks=[pytest.mark.slow, pytest.mark.rotate(share=6)] if p.name in SLOW else [])
    for p in sorted(EXAMPLES.iterdir())
    if (p / "pyproject.toml").is_file()
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_an_example_passes_every_free_step(lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copytree(EXAMPLES / name, Path(lab.workspace.root) / "environments" / name)
    calls = Calls(lab, TOOLS, References())
    checked = await calls.execute("check_environment", {"environment": name})
    tested = await calls.execute("test_reward", {"environment": name})
    assert (checked.status, tested.status) == ("passed", "passed"), (checked, tested)
    assert tested.data["gold_pass_rate"] >= 0.99
