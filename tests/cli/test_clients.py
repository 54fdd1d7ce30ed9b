"""`prime-lab-mcp install CLIENT`: every client's file gets an entry that starts, and keeps what it held."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from prime_lab_mcp.cli import clients
from prime_lab_mcp.cli.main import CLIENT_NAMES, main
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import Settings

PLACES = [(name, scope) for name, c in clients.CLIENTS.items() for scope in ("project", "user") if getattr(c, scope)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path / "home"


def entry(client: str, scope: Any, settings: Settings) -> dict[str, Any]:
    config = clients.CLIENTS[client]
    path = config.path(scope, settings.workspace)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    content: dict[str, Any] = tomlkit.parse(text).unwrap() if path.suffix == ".toml" else json.loads(text)
    found: dict[str, Any] = content[config.table]["prime-lab"]
    return found


def test_the_command_line_offers_every_client() -> None:
    assert tuple(clients.CLIENTS) == CLIENT_NAMES


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_an_entry_is_written_once_changed_and_removed(
    settings: Settings, client: str, scope: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(*options: str, remove: bool = False) -> str:
        assert clients.install(settings, client, options, scope=scope, remove=remove) == 0
        return capsys.readouterr().out

    assert "+" in install()
    assert entry(client, scope, settings)["args"] == ["serve", "--workspace", str(settings.workspace)]
    assert "already" in install()
    assert "--rehearsal" in install("--rehearsal")
    assert entry(client, scope, settings)["args"][-1] == "--rehearsal"
    install(remove=True)
    with pytest.raises(KeyError):
        entry(client, scope, settings)
    assert "has no entry" in install(remove=True)


@pytest.mark.parametrize(
    ("client", "name", "before"),
    [
        (
            "claude-code",
            ".mcp.json",
            '{\n    "mcpServers": {\n        "other": {"command": "é"}\n    },\n    "x": [1]\n}\n',
        ),
        (
            "codex",
            ".codex/config.toml",
            '# mine\nmodel = "m"  # why\n\n[mcp_servers.other]\ncommand = "o"\n\n[tui]\na = 1\n',
        ),
    ],
)
def test_everything_else_in_the_file_stays(settings: Settings, client: str, name: str, before: str) -> None:
    path = settings.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before, encoding="utf-8")
    path.chmod(0o600)
    clients.install(settings, client, ())
    after = path.read_text(encoding="utf-8")
    parse = tomlkit.parse if path.suffix == ".toml" else json.loads
    content: Any = parse(after)
    assert content[clients.CLIENTS[client].table]["prime-lab"]
    del content[clients.CLIENTS[client].table]["prime-lab"]
    assert content == parse(before)
    assert all(comment in after for comment in ("# mine", "# why") if comment in before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.glob(".*.*") if p.name.startswith(f".{path.name}.")] == []


def test_what_a_person_added_to_the_entry_stays(settings: Settings) -> None:
    clients.install(settings, "cursor", ())
    path = settings.workspace / ".cursor" / "mcp.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["mcpServers"]["prime-lab"]["env"] = {"HTTPS_PROXY": "http://proxy"}
    path.write_text(json.dumps(content), encoding="utf-8")
    clients.install(settings, "cursor", ("--rehearsal",))
    assert entry("cursor", "project", settings)["env"] == {"HTTPS_PROXY": "http://proxy"}


@pytest.mark.parametrize("text", ['{"servers": {}, // mine\n}', "[]", '{"servers": [1]}', "\ufeff{}", "{"])
def test_a_file_that_is_not_plain_json_is_left_alone_with_the_entry_to_paste(settings: Settings, text: str) -> None:
    path = settings.workspace / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="left as it is") as refused:
        clients.install(settings, "vscode", ())
    pasted = json.loads(refused.value.fix.split("\n", 1)[1])
    assert pasted["servers"]["prime-lab"]["args"][0] == "serve"
    assert path.read_text(encoding="utf-8") == text


def test_claude_codes_own_file_is_written_by_claude_code(settings: Settings) -> None:
    with pytest.raises(BadInput) as refused:
        clients.install(settings, "claude-code", ("--rehearsal",), scope="user")
    assert "claude mcp add --scope user prime-lab -- " in refused.value.fix
    assert refused.value.fix.endswith("--rehearsal")


@pytest.mark.parametrize("cap", ["5", "0.5", "123456.78", "999999.99"])
def test_the_cap_of_an_entry_is_the_cap_that_was_given(
    settings: Settings, cap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--workspace", str(settings.workspace), "--state-dir", str(settings.state_dir)]
    assert main(["install", "cursor", "--print", *folders, "--max-spend", cap]) == 0
    assert json.loads(capsys.readouterr().out)["mcpServers"]["prime-lab"]["args"][-1] == cap


def test_codex_reads_its_own_home(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    clients.install(settings, "codex", (), scope="user")
    assert (tmp_path / "codex" / "config.toml").is_file()


def test_a_linked_file_stays_a_link(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}", encoding="utf-8")
    (settings.workspace / ".mcp.json").symlink_to(tmp_path / "dotfiles.json")
    clients.install(settings, "claude-code", ())
    assert (settings.workspace / ".mcp.json").is_symlink()
    assert "prime-lab" in (tmp_path / "dotfiles.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("found_by", ["PATH", "UV"])
@pytest.mark.parametrize(
    ("record", "origin"),
    [
        (None, []),
        ({"url": "file:///tmp/a%20b/x.whl", "archive_info": {}}, ["--from", "/tmp/a b/x.whl"]),
        ({"url": "https://example.com/x.whl", "archive_info": {}}, ["--from", "https://example.com/x.whl"]),
        (
            {"url": "https://example.com/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["--from", "git+https://example.com/r.git@abc"],
        ),
        ("no object", []),
    ],
)
def test_uvx_is_named_where_the_server_runs_from_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Any, origin: list[str], found_by: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if record is None else json.dumps(record)

    cached = tmp_path / ".cache" / "uv" / "archive-v0" / "Xy"
    uvx = tmp_path / "uvx"
    for program in (uvx, cached / "bin" / "uvx", cached / "bin" / "prime-lab-mcp"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    on_path, variable = (tmp_path, "") if found_by == "PATH" else (tmp_path / "elsewhere", str(tmp_path / "uv"))
    monkeypatch.setenv("PATH", f"{cached / 'bin'}:{on_path}")
    monkeypatch.setenv("UV", variable)
    monkeypatch.setattr(sys, "prefix", str(cached))
    monkeypatch.setattr(clients.importlib.metadata, "distribution", lambda name: Installed())
    assert clients.server_command() == [str(uvx), *origin, "prime-lab-mcp"]
    assert shlex.split(clients.typed_command("setup")) == [str(uvx), *origin, "prime-lab-mcp", "setup"]


def test_without_a_client_the_command_lists_them(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    clients.install(settings, "gemini", ())
    capsys.readouterr()
    state = str(settings.state_dir)
    assert main(["install", "--workspace", str(settings.workspace), "--state-dir", state]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if "has an entry" in line] == [["gemini", "project"]]
    assert next(line for line in lines if "setup" in line).startswith("The toolchain")


@pytest.mark.anyio
async def test_the_entry_starts_a_server_from_a_strangers_folder_and_path(settings: Settings) -> None:
    command = ["install", "claude-code", "--workspace", str(settings.workspace), "--state-dir", str(settings.state_dir)]
    assert main([*command, "--rehearsal", "--max-spend", "5"]) == 0
    written = entry("claude-code", "project", settings)
    bare = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]}
    parameters = StdioServerParameters(command=written["command"], args=written["args"], env=bare, cwd="/")
    async with Client(stdio_client(parameters)) as client:
        status = await client.call_tool("workflow_status", {})
    assert status.structured_content is not None
    assert status.structured_content["status"] == "passed"
