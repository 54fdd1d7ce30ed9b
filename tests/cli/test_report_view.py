"""Reports in a terminal: whole as JSON, as Markdown, and with colours and tables."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from prime_lab_mcp.cli import doctor
from prime_lab_mcp.cli.main import main
from prime_lab_mcp.cli.report_view import command_of, markdown, show_on, show_report
from prime_lab_mcp.cli.tool_arguments import parse_pairs, tool_help
from prime_lab_mcp.lab.base.report import Finding, Next, Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.server import rendering

REPORT = Report(
    "failed",
    "The reward [bold]failed[/bold].",
    findings=(Finding("reward-wrong-passes", "blocker", "29 wrong `answers` *earned*", "Compare whole.", "a.py:3"),),
    data={"tasks": 72, "cases": [{"case": f"number {i}", "reward": i} for i in range(900)], "text": "x" * 30_000},
    next=(Next("test_reward", "after mending", {"environment": "it's mine", "examples": 3}),),
)


def test_json_holds_the_whole_report(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(REPORT, "json")
    printed = json.loads(capsys.readouterr().out)
    assert printed == rendering.whole(REPORT)
    assert len(printed["data"]["cases"]) == 900
    assert len(printed["data"]["text"]) == 30_000


def test_markdown_holds_the_whole_report_and_no_text_of_it_becomes_markup() -> None:
    text = markdown(rendering.whole(REPORT))
    assert "29 wrong \\`answers\\` \\*earned\\*" in text
    block = re.search(r"^```json\n(.*)\n```$", text, re.M | re.S)
    assert block is not None
    assert json.loads(block[1]) == rendering.whole(REPORT)["data"]


def test_a_terminal_gets_findings_tables_and_the_next_call_as_a_command() -> None:
    out = io.StringIO()
    show_on(Console(file=out, width=100, force_terminal=True, highlight=False), rendering.structured(REPORT))
    printed = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert "\x1b[" in out.getvalue()
    assert "The reward [bold]failed[/bold]." in printed
    assert "blocker reward-wrong-passes a.py:3" in printed
    assert "number 11" in printed
    assert "number 12" not in printed
    assert "next prime-lab-mcp call test_reward" in printed


def test_a_cell_of_a_table_names_its_objects_a_line_each_without_json() -> None:
    gates = [{"tool": "run_eval", "state": "open", "why": "x" * 90}, {"tool": "push_environment", "state": "closed"}]
    report = Report("passed", "One.", data={"environments": [{"name": "sums", "gates": gates, "evidence": gates * 5}]})
    out = io.StringIO()
    show_on(Console(file=out, width=100, highlight=False), rendering.structured(report))
    row = [line.split() for line in out.getvalue().splitlines() if "run_eval" in line or "push_environment" in line]
    assert row[0] == ["sums", "run_eval", "open", "run_eval", "open"]
    assert row[1] == ["push_environment", "closed", "push_environment", "closed"]
    assert "and 4 more" in out.getvalue()
    assert '"' not in out.getvalue()


def test_the_command_of_a_next_call_gives_its_arguments_back() -> None:
    step = rendering.whole(REPORT)["next"][0]
    words = shlex.split(command_of(step))
    assert words[:3] == ["prime-lab-mcp", "call", "test_reward"]
    assert parse_pairs(words[3:], tool_help("test_reward")) == step["arguments"]


def test_a_call_prints_json_and_nothing_else(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "not_dumpable", lambda: None)  # this process runs other tests too
    folders = ["--workspace", str(settings.workspace), "--state-dir", str(settings.state_dir)]
    assert main(["call", *folders, "read_reference", "--output", "json", "--topic", "guide/workflow"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["status"] == "passed"
    assert main(["call", *folders, "read_reference", "--output", "json", "--nonsense", "1"]) == 2
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "bad-argument"


def test_the_doctor_answers_with_commands(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PRIME_LAB_STATE_DIR", str(settings.state_dir))
    setup = doctor.fix_command("verifiers-missing", settings)
    assert setup is not None
    assert shlex.split(setup) == [str(Path(sys.executable).parent / "prime-lab-mcp"), "setup"]
    login = doctor.fix_command("not-logged-in", settings)
    assert login is not None
    program, word = shlex.split(login)
    assert (Path(program).name, Path(program).is_file(), word) == ("prime", True, "login")
    assert doctor.fix_command("wallet-empty", settings) is None


def test_what_one_command_mends_stands_together_above_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, object]] = []
    findings = [Finding(code, "blocker", f"{code}.", "Install.") for code in ("verifiers-missing", "prime-missing")]
    between = Finding("disk-low", "warning", "1 GB is free", "Free some space.")
    report = Report("failed", "Not yet.", findings=(findings[0], between, findings[1]))
    monkeypatch.setattr(doctor.terminal, "run_tool", lambda _, __, given: asked.append(given) or report)
    assert main(["setup", "--workspace", str(settings.workspace), "--state-dir", str(settings.state_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("blocker verifiers-missing: verifiers-missing.")
    assert lines[at + 1] == "blocker prime-missing: prime-missing."
    assert re.search(r"run:  \S*prime-lab-mcp setup", lines[at + 2])
    assert sum("run:  " in line for line in lines) == 1
    assert "  Free some space." in lines
    assert asked == [{"install": True}]


def test_the_doctor_names_each_capability_and_each_fix(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Finding("verifiers-missing", "blocker", "verifiers is not installed", "Run preflight(install=true).")
    empty = Finding("wallet-empty", "warning", "the wallet holds 0", "Add funds at https://example.com.")
    confined = {"files": "confined", "processes": "confined", "network": "partly", "still_open": ["TCP port 443"]}
    local = {"state": "missing", "python": "3.11.7", "confinement": confined}
    capabilities = {"local": local, "account": {"state": "ok", "user": "ada"}}
    report = Report("failed", "Not yet.", findings=(missing, empty), data={"capabilities": capabilities})
    monkeypatch.setattr(doctor.terminal, "run_tool", lambda *_: report)
    assert doctor.doctor(settings, "text") == 1
    printed = capsys.readouterr().out
    assert re.search(r"-- local +missing .*python 3\.11\.7", printed)
    assert re.search(r"ok account +ok .*user ada", printed)
    assert "environment code: files confined, processes confined, network partly\n  still open: TCP port 443" in printed
    assert re.search(r"run:  \S*prime-lab-mcp setup", printed)
    assert "Add funds at https://example.com." in printed
    doctor.doctor(settings, "json")
    assert "setup" in json.loads(capsys.readouterr().out)["commands"]["verifiers-missing"]


def test_a_server_imports_nothing_that_only_terminals_need() -> None:
    code = """
import sys
import prime_lab_mcp.cli.main, prime_lab_mcp.server.app, prime_lab_mcp.server.call, prime_lab_mcp.tools.registry
print(sorted({"rich", "argcomplete", "typer", "pygments", "matplotlib"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
