"""The built wheel alone, in an empty folder with a stranger's PATH: it installs, names its clients and answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from prime_lab_mcp.cli.clients import CLIENTS
from prime_lab_mcp.cli.main import CLIENT_NAMES
from prime_lab_mcp.tools import WORKFLOW

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that holds the wheel and its dependencies, of the versions tested here."""
    folder = tmp_path_factory.mktemp("wheel")
    for arguments in (
        ["build", "--quiet", "--wheel", "--out-dir", folder, ROOT],
        ["venv", "--quiet", "--python", sys.executable, folder / "venv"],
    ):
        subprocess.run([UV, *arguments], check=True, timeout=300)
    [wheel] = folder.glob("*.whl")
    install = [UV, "pip", "install", "--quiet", "--python", folder / "venv", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True, timeout=300)
    return folder / "venv" / "bin" / "prime-lab-mcp"


async def test_the_wheel_is_added_to_a_client_and_answers(script: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    stranger = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": os.environ.get("LANG", "C.UTF-8")}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run([script, *words], cwd=tmp_path / "empty", env=stranger, capture_output=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout.decode()

    assert run("--version").startswith("prime-lab-mcp ")
    assert f"{script} doctor" in run("install", "claude-code", "--rehearsal")
    assert f"run:  {script} setup\n" in run("doctor", code=1)
    entry = json.loads((tmp_path / "empty" / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]["prime-lab"]
    assert entry["command"] == str(script)
    for name in CLIENT_NAMES:
        run("install", name, "--rehearsal")
        client_config = CLIENTS[name]
        path = client_config.path("project" if client_config.project else "user", tmp_path / "empty")
        assert path is not None
        if client_config.project is None:
            path = tmp_path / "home" / path.relative_to(Path.home())
        text = path.read_text(encoding="utf-8")
        written = (tomllib.loads(text) if path.suffix == ".toml" else json.loads(text))[client_config.table][
            "prime-lab"
        ]
        assert (written["command"], written["args"]) == (entry["command"], entry["args"])
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=stranger, cwd="/")
    async with Client(stdio_client(parameters)) as client:
        tools = (await client.list_tools()).tools
        status = await client.call_tool("workflow_status", {})
        preflight = await client.call_tool("preflight", {})
    assert [tool.name for tool in tools] == list(WORKFLOW)
    assert status.structured_content is not None
    assert status.structured_content["status"] == "passed"
    missing = preflight.structured_content
    assert missing is not None
    assert {"verifiers-missing", "datasets-missing"} <= {finding["code"] for finding in missing["findings"]}
    assert missing["next"][0] == {**missing["next"][0], "tool": "preflight", "arguments": {"install": True}}
