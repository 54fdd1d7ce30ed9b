"""Arguments of tools in a terminal: by the schema that clients see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.cli import main as command_line
from prime_lab_mcp.cli.main import main
from prime_lab_mcp.cli.tool_arguments import parse_pairs, tool_help, usage_of_tool
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.server import http
from prime_lab_mcp.tools import WORKFLOW
from tests.support.laws import every


def parsed(tool: str, *words: str) -> dict[str, Any]:
    return parse_pairs(words, tool_help(tool))


@every("name", WORKFLOW)
def test_the_help_of_each_tool_names_all_its_arguments(name: str) -> None:
    tool = tool_help(name)
    assert tool is not None
    printed = usage_of_tool(tool)
    assert f"call {name}" in printed
    assert [argument for argument in tool.arguments if f"\n  --{argument}" not in printed] == []
    assert [line for line in printed.splitlines() if len(line) > 130] == []


def test_help_of_a_tool_is_printed_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "--rehearsal", "test_reward", "--help"]) == 0
    assert "1 to 200; default: 8" in capsys.readouterr().out


def test_the_help_of_call_lists_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "--help"]) == 0
    printed = capsys.readouterr().out
    assert [name for name in WORKFLOW if f"\n  {name} " not in printed] == []
    assert main(["call"]) == 2
    assert "workflow_status" in capsys.readouterr().err


def test_no_argument_of_a_tool_is_taken_by_the_command_itself() -> None:
    call = command_line._parsers()[1]
    own = {option.removeprefix("--").replace("-", "_") for option in call._option_string_actions}
    taken = [(name, argument) for name in WORKFLOW for argument in getattr(tool_help(name), "arguments", ())]
    assert [pair for pair in taken if pair[1] in own] == []


def test_a_text_stays_a_text_and_a_number_becomes_one() -> None:
    assert parsed("run_eval", "--environment", "123", "--num_examples", "8") == {
        "environment": "123",
        "num_examples": 8,
    }
    assert parsed("run_eval", "--environment=true", "--wait-seconds=9") == {"environment": "true", "wait_seconds": 9}


def test_a_switch_needs_no_value_and_has_an_opposite() -> None:
    assert parsed("run_eval", "--dry_run", "--environment", "e") == {"dry_run": True, "environment": "e"}
    assert parsed("test_reward", "--no-probes", "--environment", "e") == {"probes": False, "environment": "e"}
    assert parsed("test_reward", "--probes", "false") == {"probes": False}


def test_a_list_is_json_or_repeated() -> None:
    both = {"environments": ["a/b@1", "c/d@2"]}
    assert parsed("write_training_config", "--environments", '["a/b@1", "c/d@2"]') == both
    assert parsed("write_training_config", "--environments", "a/b@1", "--environments", "c/d@2") == both


def test_what_the_schema_does_not_know_is_passed_on_for_the_call_to_refuse() -> None:
    assert parsed("run_eval", "--nonsense", "1") == {"nonsense": 1}
    with pytest.raises(ValueError, match="expected --name value"):
        parsed("run_eval", "environment")


@pytest.mark.parametrize("amount", ["x", "-1", "nan", "1e9"])
def test_an_amount_that_is_none_is_refused_in_words(amount: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--max-spend={amount}"])
    assert ended.value.code == 2
    assert "give US dollars between 0 and 1,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["{bad", "[1]", '"text"'])
def test_arguments_that_are_no_json_object_are_refused_with_an_example(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "workflow_status", f"--json={given}"]) == 2
    refused, fix = capsys.readouterr().err.splitlines()
    assert "--json" in refused
    assert "--json '{" in fix


def test_the_demo_keeps_its_files_in_a_new_or_an_empty_folder_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    for folder in (tmp_path, tmp_path / "mine.txt", tmp_path / "mine.txt" / "below"):
        assert main(["demo", "--keep", str(folder)]) == 2
        assert capsys.readouterr().err.splitlines()[1] == "Name a new or an empty folder with --keep."
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def listen(text: str, token_file: str | None, workspace: Path) -> None:
    """What `serve --http` does before it builds the server. A host that has no encoding fails last."""
    address = http.parse_address(text)
    http.choose_token(address, token_file, workspace)
    http._listen(address)


@pytest.mark.parametrize("address", ["x", "127.0.0.1:99999", "127.0.0.1:-1", "[::1", ":", "1.2.3.4:80", "a..b:80"])
def test_an_address_that_cannot_be_served_is_refused_in_words(address: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 40, encoding="ascii")
    token.chmod(0o600)
    with pytest.raises(BadInput) as refused:
        listen(address, str(token) if address == "a..b:80" else None, tmp_path / "workspace")
    assert refused.value.fix


def test_the_refusal_of_an_address_is_printed_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    folders = ["--workspace", str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "state")]
    command = [sys.executable, "-m", "prime_lab_mcp", "serve", *folders, "--http", "127.0.0.1:99999"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'prime-lab-mcp: "127.0.0.1:99999" is no address HOST:PORT',
        "Give for example --http 127.0.0.1:8000.",
    ]


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, "-m", "prime_lab_mcp", "call", "--help"]
    try:
        done = subprocess.run(program, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
