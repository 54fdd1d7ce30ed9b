"""No key of the user's reaches a report, a log, the ledger or any other file of ours, nor environment code."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import rendering
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.main import open_lab
from prime_lab_mcp.tools.registry import TOOLS
from tests.server.test_paths import PROCEDURAL, write

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
KEY = "zq-unmistakable-key-4711-of-the-user"
LOAD = f"""
import os
if any("{KEY[3:]}" in value for value in os.environ.values()):
    raise RuntimeError("the environment sees the key: " + str(sorted(os.environ)))
"""


async def test_a_key_the_platform_refuses_appears_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, url = await connection.start(tmp_path / "platform")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRIME_API_KEY", KEY)
    monkeypatch.setenv("PRIME_API_BASE_URL", url)
    monkeypatch.setenv("PRIME_INFERENCE_URL", f"{url}/inference/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "home").mkdir()
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state")
    init = 'from dice.taskset import DiceTaskset\n\n__all__ = ["DiceTaskset"]\n'
    write(settings, "dice", '"verifiers>=0.4.0,<0.5"', {"dice/__init__.py": init + LOAD, "dice/taskset.py": PROCEDURAL})
    lab = open_lab(settings)
    calls = Calls(lab, TOOLS, References())
    reports = {}
    async with platform:
        for tool, given in (
            ("preflight", {}),
            ("check_environment", {"environment": "dice"}),
            ("test_reward", {"environment": "dice"}),
            ("run_eval", {"environment": "dice", "model": "m", "num_examples": 2, "rollouts": 1}),
            ("search_hub", {"kind": "environment", "query": "a/b"}),
            ("submit_training", {"environment": "primeintellect/reverse-text@0.2.0"}),
        ):
            reports[tool] = await calls.execute(tool, given)
        await lab.close()
    assert "unauthorized" in str(reports["preflight"])
    assert reports["test_reward"].status == "passed", reports["test_reward"]
    assert [name for name, r in reports.items() if KEY in rendering.text(rendering.structured(r))] == []
    assert [str(r) for r in reports.values() if KEY in str(r)] == []
    holding = [p for p in (tmp_path / "state").rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert holding == []
    dumped = "\n".join(sqlite3.connect(tmp_path / "state" / "ledger.sqlite3").iterdump())
    assert KEY not in dumped
