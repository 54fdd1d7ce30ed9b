"""reference/prime-cli against the installed program: every command and option on the page exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resources.fenced import page
from tests.support.laws import every

LIST = """
import json, typer
from prime_cli.main import app
def walk(command, path):
    options = [o for p in command.params for o in (*p.opts, *p.secondary_opts)]
    found = {" ".join(path): [options, bool(getattr(command, "hidden", False)), bool(getattr(command, "commands", {}))]}
    for name, inner in getattr(command, "commands", {}).items():
        found |= walk(inner, [*path, name])
    return found
print(json.dumps(walk(typer.main.get_command(app), ["prime"])))
"""
NAMED = sorted(set(re.findall(r"`(prime [^`]+)`", page("reference/prime-cli"))))


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], bool, bool]]:
    """Every command with its options, whether it is hidden, and whether it has sub-commands."""
    home = str(tmp_path_factory.mktemp("home"))
    environment = {"HOME": home, "PATH": "/usr/bin:/bin", "PRIME_DISABLE_VERSION_CHECK": "1", "COLUMNS": "200"}
    told = subprocess.run(
        [sys.executable, "-c", LIST], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(told.stdout)
    # These options are parsed by hand, so only the help lists them.
    program = Path(sys.executable).parent / "prime"
    helped = subprocess.run(
        [program, "--plain", "eval", "run", "--help"], env=environment, capture_output=True, text=True, timeout=60
    )
    found["prime eval run"][0] += re.findall(r"--[a-z-]+", helped.stdout)
    return found


def split(text: str, commands: dict[str, tuple[list[str], bool, bool]]) -> tuple[str, list[str]]:
    """The longest known command a text begins with, and the options after it."""
    words = text.split()
    known = [n for n in range(1, len(words) + 1) if " ".join(words[:n]) in commands]
    return " ".join(words[: max(known)]), [word.split("=")[0] for word in words if word.startswith("-")]


def test_the_page_names_commands() -> None:
    assert len(NAMED) > 40


@every("text", NAMED)
def test_a_named_command_and_its_options_exist(text: str, commands: dict[str, tuple[list[str], bool, bool]]) -> None:
    command, options = split(text, commands)
    known, hidden, is_group = commands[command]
    if command == "prime train":  # with a file it is the hidden `prime train run`
        known, is_group = commands["prime train run"][0], "FILE" not in text
    rest = [word for word in text.split()[len(command.split()) :] if not word.startswith("-")]
    assert not hidden
    assert not (is_group and rest), f"{command} has no command {rest}"
    assert [option for option in options if option not in known] == []


def test_the_page_is_about_the_installed_version() -> None:
    from importlib.metadata import version

    assert f"`prime` {version('prime')}" in page("reference/prime-cli")
