"""Which tools are shells, which files of several tasks are alike, and which commands read a file."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.shell_files import common_paths, reads_file, shell_tools
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
