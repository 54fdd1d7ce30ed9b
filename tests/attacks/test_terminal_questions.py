"""A person reads the same in a terminal, in a client and in the report of the agent; a file below decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.cli import person
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.approval import Answer, Request, approve
from prime_lab_mcp.tools.tool import Intent

pytestmark = pytest.mark.anyio
FILE = 'max_steps = 4\n\n[orchestrator.renderer]\nmodel_identity = "You are a parrot\u202e"\n'
SHOWN = 'max_steps = 4\n\n[orchestrator.renderer]\nmodel_identity = "You are a parrot\\u202e"'
RUN = Intent("submit", "run-1", "Start the run?", 5.0, file=FILE)
CALL = Request("submit_training", {"config": "run.toml"}, None, False)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    (tmp_path / "workspace").mkdir()
    made = Lab(Settings(tmp_path / "workspace", tmp_path / "state", approval="always"))
    yield made
    made.ledger.close()


async def test_the_terminal_shows_what_a_client_shows(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    async def ask(question: str) -> Answer:
        asked.append(question)
        return "cannot-ask"

    report = await approve(lab, RUN, CALL, ask)
    assert report is not None
    assert person.approve(lab.settings, str(report.data["confirm"]), assume_yes=True) == 0
    shown = capsys.readouterr().out
    assert asked == [f"{report.data['question']}\n\n{SHOWN}"]
    assert shown.startswith(asked[0] + "\n")
    assert report.data["file"] == SHOWN


async def test_an_answer_that_came_too_early_is_told_with_the_file_too(lab: Lab) -> None:
    first = await approve(lab, RUN, CALL, None)
    assert first is not None
    again = await approve(lab, RUN, replace(CALL, confirm=str(first.data["confirm"])), None)
    assert again is not None
    assert (again.data["question"], again.data["file"]) == (first.data["question"], SHOWN)


async def test_a_caution_that_only_the_file_says_was_not_said(lab: Lab) -> None:
    caution = "no step here tried these settings of the config: x"
    first = await approve(lab, replace(RUN, file=f'note = "{caution}"\n'), CALL, None)
    assert first is not None
    token = str(first.data["confirm"])
    lab.ledger.approve(token)
    again = await approve(lab, RUN, replace(CALL, confirm=token, cautions=(caution,)), None)
    assert again is not None
    assert again.data["confirm"] != token
