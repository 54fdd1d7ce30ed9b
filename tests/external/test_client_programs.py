"""Programs of the clients themselves read what `install` wrote, start the server and speak with it.

The programs are large and not installed by this project: a test is skipped where its program is not on PATH. With
`npm install -g @anthropic-ai/claude-code @google/gemini-cli @openai/codex` all of them run, without an account.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "prime-lab-mcp"


def _approve_claude(project: Path, home: Path) -> None:
    trusted = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["prime-lab"]}
    (home / ".claude.json").write_text(json.dumps({"projects": {str(project): trusted}}), encoding="utf-8")
    (project / ".claude").mkdir()
    settings = json.dumps({"enableAllProjectMcpServers": True})
    (project / ".claude" / "settings.local.json").write_text(settings, encoding="utf-8")


def _trust_gemini(project: Path, home: Path) -> None:
    (home / ".gemini").mkdir()
    trusted = json.dumps({str(project): "TRUST_FOLDER"})
    (home / ".gemini" / "trustedFolders.json").write_text(trusted, encoding="utf-8")


def _trust_codex(project: Path, home: Path) -> None:
    (home / ".codex").mkdir()
    trusted = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    (home / ".codex" / "config.toml").write_text(trusted, encoding="utf-8")


@dataclass(frozen=True)
class ClientProgram:
    """How a person lets the program use the servers of a project, and what the program says of ours then."""

    client: str
    trust: Callable[[Path, Path], None]
    asks: tuple[str, ...]
    answer: str


PROGRAMS = {
    "claude": ClientProgram("claude-code", _approve_claude, ("mcp", "list"), "Connected"),
    "gemini": ClientProgram("gemini", _trust_gemini, ("mcp", "list"), "- Connected"),
    # Codex starts servers only beside a model; it shows here that it reads the entry.
    "codex": ClientProgram("codex", _trust_codex, ("mcp", "get", "prime-lab"), "tool_timeout_sec: 1800"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clients_own_program_uses_the_entry_that_install_wrote(name: str, tmp_path: Path) -> None:
    found, program = shutil.which(name), PROGRAMS[name]
    if found is None:
        pytest.skip(f"{name} is not installed")
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MCP_TIMEOUT": "120000"}
    installed = [str(COMMAND), "install", program.client, "--rehearsal", "--state-dir", str(tmp_path / "state")]
    subprocess.run(installed, cwd=project, env=environment, check=True, capture_output=True, timeout=60)
    program.trust(project, home)
    done = subprocess.run(
        [found, *program.asks],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    answered = [line for line in (done.stdout + done.stderr).splitlines() if program.answer in line]
    assert len(answered) == 1, done.stdout + done.stderr
