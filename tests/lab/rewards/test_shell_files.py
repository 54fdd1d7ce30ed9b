"""Which tools are shells, which files of several tasks are alike, and which commands read a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prime_lab_mcp.lab.rewards.shell_files import common_paths, listed_files, reads_file, shell_tools
from prime_lab_mcp.lab.worker.scoring import OfferedTool


def offered(name: str, description: str, *texts: str) -> OfferedTool:
    return OfferedTool(name, description, {"properties": {t: {"type": "string"} for t in texts}, "required": texts})


@pytest.mark.parametrize(
    ("tool", "python"),
    [
        (offered("bash", "Run a bash command.", "command"), False),
        (offered("run_command", "Runs a command in the shell of the sandbox.", "cmd"), False),
        (offered("python", "Run code.", "code"), True),
    ],
)
def test_a_tool_that_runs_commands_or_code_is_a_shell(tool: OfferedTool, python: bool) -> None:
    assert [found.python for found in shell_tools([tool])] == [python]


@pytest.mark.parametrize(
    "tool", [offered("tab", "", "command"), offered("shell_price", "The price of a shell.", "item"), offered("ls", "")]
)
def test_other_tools_are_no_shell(tool: OfferedTool) -> None:
    assert list(shell_tools([tool])) == []


@pytest.mark.parametrize(
    ("listings", "paths"),
    [
        ([["./a.txt", "./b.txt"], ["./b.txt"], ["./c", "./b.txt"]], ["./b.txt"]),
        ([["./x/case-1.txt"], ["./x/case-27.txt"], ["./x/case-3.txt"]], ["./x/case-*.txt"]),
        ([["./17/expected.txt"], ["./4/expected.txt"]], ["./*/expected.txt"]),
        ([["./one"], ["./two"]], []),
        ([["./a.txt"], []], []),
        ([["./a.txt"]], []),
    ],
)
def test_files_are_alike_where_one_command_reads_them_in_every_task(
    listings: list[list[str]], paths: list[str]
) -> None:
    assert common_paths(listings) == paths


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat expected.txt", True),
        ("cat ./out/expected.txt | head", True),
        ("cat *.txt", True),
        ("grep -rn total .", True),
        ("python3 tool.py sales.csv --sum total", False),
        ("cat sales.csv", False),
    ],
)
def test_a_command_reads_a_file_that_it_names_or_matches(command: str, reads: bool) -> None:
    assert reads_file([command], "./expected.txt") is reads


def test_a_large_folder_whose_search_has_no_end_hides_no_file_of_the_working_directory(tmp_path: Path) -> None:
    """Programs write what they found in blocks, and a block is lost when the time of the search ends."""
    (tmp_path / "bin").mkdir()
    grep = tmp_path / "bin" / "grep"
    code = "for d in sys.argv[1:]:\n    if d == '.': print('./.expected')\n    if d[0] == '/': time.sleep(60)"
    grep.write_text(f"#!{sys.executable}\nimport sys, time\n{code}\n", encoding="utf-8")
    grep.chmod(0o755)
    (shell,) = shell_tools([offered("bash", "Run a bash command.", "command")])
    call = shell.search(["163.5"])
    assert call is not None
    places = {"PATH": f"{grep.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(["bash", "-c", call[1]["command"]], cwd=tmp_path, env=places, capture_output=True, text=True)
    assert listed_files(done.stdout) == ["./.expected"]


def test_an_image_without_grep_is_searched_with_the_shell_alone(tmp_path: Path) -> None:
    (tmp_path / ".expected").write_text("163.5\n", encoding="utf-8")
    (tmp_path / "sales.csv").write_text("n,total\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    for program in ("cat", "head"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or program)
    (shell,) = shell_tools([offered("bash", "Run a bash command.", "command")])
    call = shell.search(["163.5", "it's"])
    assert call is not None
    places = {"PATH": str(tmp_path / "bin"), "HOME": "/nowhere", "TMPDIR": "/nowhere"}
    bash = shutil.which("bash") or "bash"
    done = subprocess.run([bash, "-c", call[1]["command"]], cwd=tmp_path, env=places, capture_output=True, text=True)
    assert listed_files(done.stdout) == ["./.expected"]
