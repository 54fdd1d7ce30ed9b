"""The built wheel alone, in an empty folder with a stranger's PATH: it installs, names its clients and answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from prime_lab_mcp.cli.clients import CLIENTS
from prime_lab_mcp.cli.main import CLIENT_NAMES
from prime_lab_mcp.tools import WORKFLOW

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"

DESKTOP = f"home/{CLIENTS['claude-desktop'].path('user', ROOT).relative_to(Path.home()).as_posix()}"  # type: ignore[union-attr]

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True, timeout=300)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def script(wheel: Path) -> Path:
    """The command of a fresh environment that holds the wheel and its dependencies, of the versions tested here."""
    venv = wheel.parent / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True, timeout=300)
    install = [UV, "pip", "install", "--quiet", "--python", venv, "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True, timeout=300)
    return venv / "bin" / "prime-lab-mcp"


@dataclass(frozen=True)
class Stranger:
    """Somebody with an empty folder, an empty home and the system's programs, who runs one installed command."""

    script: Path
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "empty"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": os.environ.get("LANG", "C.UTF-8")}

    def run(self, *words: str, code: int = 0) -> str:
        self.folder.mkdir(exist_ok=True)
        command = [self.script, *words]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout.decode()

    def files(self) -> dict[str, str]:
        """Every file of the folder and the home but the state directory, with its text."""
        found = [path for top in (self.folder, self.home) for path in top.rglob("*") if path.is_file()]
        own = [path for path in found if "prime-lab-mcp" not in path.relative_to(self.root).parts]
        return {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in own}

    def client(self, file: str) -> Client:
        """A client that starts the entry of a configuration file as its host would: from elsewhere."""
        text = self.files()[file]
        content = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
        [table] = content.keys() & {config.table for config in CLIENTS.values()}
        entry = content[table]["prime-lab"]
        parameters = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=self.environment | entry.get("env", {}), cwd="/"
        )
        return Client(stdio_client(parameters))


FILES = {
    "claude-code": "empty/.mcp.json",
    "claude-desktop": DESKTOP,
    "vscode": "empty/.vscode/mcp.json",
    "cursor": "empty/.cursor/mcp.json",
    "codex": "empty/.codex/config.toml",
    "gemini": "empty/.gemini/settings.json",
}


async def test_the_entry_in_every_clients_file_starts_a_server_that_lists_its_tools(
    script: Path, tmp_path: Path
) -> None:
    stranger = Stranger(script, tmp_path)
    printed = {name: stranger.run("install", name, "--print", "--rehearsal") for name in CLIENT_NAMES}
    assert stranger.files() == {}
    for name in CLIENT_NAMES:
        stranger.run("install", name, "--rehearsal")
    assert set(FILES) == set(CLIENT_NAMES)
    written = stranger.files()
    assert set(written) == set(FILES.values())
    assert [name for name, text in printed.items() if text.strip() != written[FILES[name]].strip()] == []
    for name, file in FILES.items():
        async with stranger.client(file) as client:
            assert client.server_info.name == "prime-lab-mcp", name
            assert [tool.name for tool in (await client.list_tools()).tools] == list(WORKFLOW), name
    for name in CLIENT_NAMES:
        stranger.run("install", name, "--remove")
    assert [file for file, text in stranger.files().items() if "prime-lab" in text] == []


def test_uv_installs_the_wheel_as_a_tool_whose_entry_is_that_tool(wheel: Path, tmp_path: Path) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    install = [UV, "tool", "install", "--quiet", "--python", sys.executable, "--constraints", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True, timeout=300, env=os.environ | places)
    stranger = Stranger(tmp_path / "bin" / "prime-lab-mcp", tmp_path)
    entry = json.loads(stranger.run("install", "claude-code", "--print"))["mcpServers"]["prime-lab"]
    done = subprocess.run([entry["command"], "--version"], env=stranger.environment, capture_output=True, timeout=120)
    assert done.stdout.startswith(b"prime-lab-mcp ")
    assert Path(entry["command"]).is_relative_to(tmp_path)


async def test_without_the_toolchain_it_says_what_is_missing_and_answers(script: Path, tmp_path: Path) -> None:
    stranger = Stranger(script, tmp_path)
    assert stranger.run("--version").startswith("prime-lab-mcp ")
    assert f"{script} doctor" in stranger.run("install", "claude-code", "--rehearsal")
    assert f"run:  {script} setup\n" in stranger.run("doctor", code=1)
    async with stranger.client(FILES["claude-code"]) as client:
        status = await client.call_tool("workflow_status", {})
        preflight = await client.call_tool("preflight", {})
    assert status.structured_content is not None
    assert status.structured_content["status"] == "passed"
    missing = preflight.structured_content
    assert missing is not None
    assert {"verifiers-missing", "datasets-missing"} <= {finding["code"] for finding in missing["findings"]}
    assert missing["next"][0] == {**missing["next"][0], "tool": "preflight", "arguments": {"install": True}}
