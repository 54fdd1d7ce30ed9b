"""A client that shares no code with ours walks the workflow over stdio, in both protocol eras."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prime_lab_mcp.cli.demo_data import write_problems

HERE = Path(__file__).parent / "typescript"
NODE, NPM = shutil.which("node"), shutil.which("npm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None or NPM is None, reason="needs node and npm"),
]


@pytest.fixture(scope="session")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    for name in ("package.json", "package-lock.json", "walk.mjs"):
        shutil.copy(HERE / name, folder)
    subprocess.run(
        [str(NPM), "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder,
        check=True,
        timeout=300,
        capture_output=True,
    )
    return folder


@pytest.mark.rotate(share=6, group="whole walks")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_an_independent_client_walks_the_whole_workflow(client_folder: Path, tmp_path: Path, era: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_problems(workspace / "harvest.jsonl", 160)
    server = [sys.executable, "-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(workspace)]
    server += ["--state-dir", str(tmp_path / "state")]
    done = subprocess.run(
        [str(NODE), "walk.mjs", era, json.dumps(server)],
        cwd=client_folder,
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = [step for step in steps if "expected" in step and step["status"] != step["expected"]]
    assert (done.returncode, wrong) == (0, []), done.stdout[-4000:] + done.stderr[-2000:]
    assert {"submit_training", "workflow_status"} <= set(steps[0]["tools"])
    assert "lab://guide/workflow" in steps[0]["resources"]
    assert {"build_environment", "train_existing"} <= set(steps[0]["prompts"])
    assert steps[-1]["asked"] == 2
