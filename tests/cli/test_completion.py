"""Completion answers from the parser, the schemas of the tools and the workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prime_lab_mcp.cli.main import main
from prime_lab_mcp.lab.base.settings import Settings

SCRIPT = """
prime-lab-mcp() {{ {python} -m prime_lab_mcp "$@"; }}
source <(prime-lab-mcp completion bash)
for line in "$@"; do
  COMP_LINE="$line"; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMPREPLY=()
  read -ra COMP_WORDS <<< "$line"; [[ "$line" == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
  _python_argcomplete prime-lab-mcp
  echo "${{COMPREPLY[*]}}"
done
"""


@pytest.mark.slow
def test_bash_completes_commands_tools_arguments_values_and_environments(settings: Settings) -> None:
    folder = settings.workspace / "environments" / "marbles"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "marbles"\nversion = "0.1.0"\n', encoding="utf-8")
    lines = {
        "prime-lab-mcp doc": "doctor",
        "prime-lab-mcp call test_r": "test_reward",
        "prime-lab-mcp call run_eval --num": "--num_examples",
        "prime-lab-mcp call run_eval --runtime p": "podman",
        "prime-lab-mcp call test_reward --environment m": "marbles",
        "prime-lab-mcp install vs": "vscode",
    }
    done = subprocess.run(
        ["bash", "-c", SCRIPT.format(python=sys.executable), "bash", *lines],
        cwd=settings.workspace,
        env={**os.environ, "PRIME_LAB_STATE_DIR": str(settings.state_dir)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line.strip() for line in done.stdout.splitlines()] == list(lines.values()), done.stderr


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete "), ("zsh", "#compdef"), ("fish", "complete --command")]
)
def test_each_shell_has_a_script(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert word in printed
    assert "prime-lab-mcp" in printed
    assert str(Path.cwd()) not in printed
