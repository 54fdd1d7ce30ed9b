"""The README and the pages under docs/ tell a stranger what is so."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.cli import main as command_line
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.server import arguments
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.tools.registry import TOOLS
from tests.server.readme import PAGES, README, ROOT, current, table

TEXT = README.read_text(encoding="utf-8")
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
EVERYTHING = "\n".join(TEXTS.values())
WALK_THROUGHS = TEXTS["CONTRIBUTING.md"]
BY_NAME = {tool.name: tool for tool in TOOLS}
FREE_CALLS = (["call", "workflow_status"], ["call", "read_reference"])
"""Calls that neither need an environment nor load a toolchain."""
PLACEHOLDERS = {"CLIENT": "claude-code", "TOOL": "workflow_status", "TOPIC": "guide/workflow"}


def commands() -> Iterator[list[str]]:
    """Every `prime-lab-mcp ...` of the pages, as words: lines of code blocks, and inline code."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", EVERYTHING, re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```\w*\n.*?^```", "", EVERYTHING, flags=re.M | re.S))
    for line in [*"\n".join(blocks).replace("\\\n", " ").splitlines(), *inline]:
        line = re.sub(r"^source <\((.+)\)|^(.+) \| source", r"\1\2", line.strip())
        found = re.match(r"(?:\$ )?(?:\S*/)?prime-lab-mcp( .+)$", line)
        if found and "..." not in found[1].replace('"..."', ""):
            words = [PLACEHOLDERS.get(word, word) for word in shlex.split(found[1], comments=True)]
            if not {"--help", "--version"} & set(words):
                yield words


def options(words: list[str]) -> dict[str, Any]:
    """The arguments of a tool on a command line, without the options that every command takes."""
    args, rest = command_line._parser().parse_known_args(words)
    from prime_lab_mcp.cli.tool_arguments import parse_pairs, tool_help

    assert args.command == "call"
    return parse_pairs(rest, tool_help(args.tool))


def test_the_table_of_tools_is_the_registry() -> None:
    assert current() == table()


def test_the_steps_of_the_readme_name_every_tool_once() -> None:
    steps = TEXT.split("<!-- steps -->")[1].split("<!-- end of steps -->")[0]
    assert sorted(re.findall(r"`(\w+)`", steps)) == sorted(BY_NAME)
    assert re.findall(r"(\d+) tools\.", TEXT) == [str(len(TOOLS))]


@pytest.mark.anyio
async def test_the_table_of_prompts_is_what_the_server_lists(settings: Settings) -> None:
    listed = TEXTS["docs/tools.md"].split("<!-- prompts -->")[1].split("<!-- end of prompts -->")[0]
    prompts = await build_server(Lab(settings)).list_prompts()
    assert re.findall(r"^\| `(\w+)`", listed, re.M) == [prompt.name for prompt in prompts]


def test_the_readme_is_for_five_minutes() -> None:
    assert len(TEXT.splitlines()) <= 150


def test_the_readme_says_first_what_the_gates_are_not() -> None:
    for sentence in (
        "speed bump, not proof of a person",
        "guards against mistakes and shortcuts of an agent that uses it, **not against its user**",
        "driven as programs and never imported by the server",
    ):
        assert sentence in TEXT


def test_its_make_targets_exist() -> None:
    targets = set(re.findall(r"(?:^|`)make ([\w-]+)", EVERYTHING, re.M))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test"} <= set(re.findall(r"^make (\w+)", TEXT, re.M))
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []


def test_its_terminal_commands_exist() -> None:
    named = set(re.findall(r"(?:^|`|\$ )prime-lab-mcp (\w+)", EVERYTHING, re.M))
    assert named <= set(command_line.COMMANDS)
    assert {"call", "approve", "override"} <= named


def test_every_command_is_one_that_the_command_line_takes() -> None:
    given = [words for words in commands() if words[0] != "call" and words not in (["override"], ["approve"])]
    for words in given:
        command_line._parser().parse_args(words)
    assert {words[1] for words in given if words[0] == "install" and len(words) > 1} == set(command_line.CLIENT_NAMES)


def test_every_call_of_a_tool_has_arguments_that_the_tool_takes() -> None:
    wrong, called = [], set()
    for words in commands():
        if words[0] == "call":
            called.add(words[1])
            parsed = arguments.parse(BY_NAME[words[1]], options(words))
            wrong += [f"{' '.join(words)}: {parsed.findings}"] if isinstance(parsed, Report) else []
    assert wrong == []
    assert {"inspect_dataset", "test_reward", "run_eval", "submit_training"} <= called


def test_every_command_that_needs_no_environment_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(confine, "not_dumpable", lambda: None)  # this process runs other tests too
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRIME_LAB_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "workspace").mkdir()
    monkeypatch.chdir(tmp_path / "workspace")
    failed, ran = {}, set()
    for words in commands():
        if words[0] in ("install", "spend", "completion") or words[:2] in FREE_CALLS:
            code, name = command_line.main(words), " ".join(words)
            ran.add(words[0])
            if code != 0 or not capsys.readouterr().out.strip():
                failed[name] = code
    assert failed == {}
    assert ran == {"install", "spend", "completion", "call"}


def test_every_module_that_is_run_exists() -> None:
    modules = set(re.findall(r"python3? -m ([\w.]+)", EVERYTHING)) - {"venv"}
    assert [module for module in sorted(modules) if importlib.util.find_spec(module) is None] == []
    assert modules


def test_every_file_that_the_walk_throughs_name_exists() -> None:
    """`NAME` and `KIND` stand for a name of the reader's."""
    named = set(re.findall(r"(?:^|[`\s])((?:prime_lab_mcp|tests|docs|environments)/[\w./*-]*\w)", WALK_THROUGHS, re.M))
    patterns = {name: re.sub(r"(?<![A-Z])(?:NAME|KIND)(?![A-Z])", "*", name) for name in named}
    assert [name for name, pattern in sorted(patterns.items()) if not any(ROOT.glob(pattern))] == []
    assert len(named) >= 40


def test_every_name_of_the_code_in_the_walk_throughs_is_still_there() -> None:
    """A table, class or function that was renamed sends a reader looking for what is gone."""
    paths = [path for folder in ("prime_lab_mcp", "tests") for path in (ROOT / folder).rglob("*.py")]
    code = "\n".join([*map(str, paths), *(path.read_text(encoding="utf-8") for path in paths)])
    inline = re.findall(r"`([^`\n]+)`", WALK_THROUGHS)
    tables = {word for text in inline for word in re.findall(r"\b_?[A-Z][A-Z_]{2,}[A-Z]\b", text)}
    tables -= {"NAME", "KIND", "CODE", "PYTHON", "CHANGELOG", "README"}
    others = {text for text in inline if re.fullmatch(r"_?[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,}", text)}
    assert sorted(tables - set(re.findall(r"\w+", code))) == []
    assert sorted(name for name in others if name not in code) == []
    assert len(tables) >= 20
    assert len(others) >= 10


def test_every_link_between_the_pages_leads_somewhere() -> None:
    broken, followed = [], 0
    for name, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith(("https://", "http://")):
                continue
            followed += 1
            path, _, anchor = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{name}: {target}")
    assert broken == []
    assert followed >= 20


def test_the_readme_leads_to_every_page() -> None:
    assert [name for name in TEXTS if name != "README.md" and f"({name})" not in TEXT] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
