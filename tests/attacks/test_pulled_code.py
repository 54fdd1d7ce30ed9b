"""A stranger's code runs only after a person agreed, where nothing on the machine confines it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import InterpreterError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.approval import Answer
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment

pytestmark = pytest.mark.anyio


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.questions: list[str] = []

    async def ask(self, question: str) -> Answer:
        self.questions.append(question)
        return self.answer


@pytest.fixture
async def stranger(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pulled environment on a machine without confinement. Each attempt to run code ends in `code-ran`."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)

    async def ran(*args: Any, **options: Any) -> None:
        raise InterpreterError("code-ran", fix="-")

    monkeypatch.setattr(lab.interpreters, "for_package", ran)
    folder = write_environment(lab.settings.workspace)
    taken = await lab.snapshot("sums_v1")
    data = {"pulled": "them/sums@1.0", "cli_hash": None, "source": taken.source, "content": taken.content}
    lab.ledger.record(Evidence(PULL, "passed", lab.key, "sums_v1", data=data))
    return folder


async def call(lab: Lab, tool: str, person: Person | None, **arguments: Any) -> Report:
    return await Calls(lab, TOOLS, References()).execute(tool, arguments, ask=person.ask if person else None)


def ran(report: Report) -> bool:
    return "code-ran" in report.summary


@pytest.mark.parametrize("tool", ["check_environment", "test_reward", "inspect_dataset"])
async def test_a_strangers_code_is_not_run_without_an_answer(lab: Lab, stranger: Path, tool: str) -> None:
    named = {"dataset": "environment:sums_v1"} if tool == "inspect_dataset" else {"environment": "sums_v1"}
    for person in (None, Person("declined")):
        report = await call(lab, tool, person, **named)
        assert (report.status, ran(report)) == ("needs_confirmation", False), report
        assert report.findings[0].code == "pulled-unconfined"


async def test_one_answer_of_a_person_is_enough_for_what_was_pulled(lab: Lab, stranger: Path) -> None:
    person = Person("approved")
    assert ran(await call(lab, "check_environment", person, environment="sums_v1"))
    assert ["them/sums@1.0" in question for question in person.questions] == [True]
    (stranger / "README.md").write_text("# Other\n", encoding="utf-8")
    assert ran(await call(lab, "check_environment", None, environment="sums_v1"))


async def test_an_edit_or_another_folder_does_not_hide_that_code_is_a_strangers(lab: Lab, stranger: Path) -> None:
    copied = stranger.with_name("mine")
    stranger.joinpath("sums_v1", "taskset.py").open("a", encoding="utf-8").write("\n# mine\n")
    assert not ran(await call(lab, "check_environment", None, environment="sums_v1"))
    stranger.joinpath("sums_v1", "taskset.py").write_text(
        stranger.joinpath("sums_v1", "taskset.py").read_text(encoding="utf-8").removesuffix("\n# mine\n"),
        encoding="utf-8",
    )
    stranger.rename(copied)
    assert not ran(await call(lab, "check_environment", None, environment="mine"))


async def test_an_approval_in_a_terminal_counts_and_a_token_alone_does_not(lab: Lab, stranger: Path) -> None:
    first = await call(lab, "check_environment", None, environment="sums_v1")
    assert not ran(await call(lab, "check_environment", None, environment="sums_v1"))
    lab.ledger.approve(str(first.data["confirm"]))
    assert ran(await call(lab, "check_environment", None, environment="sums_v1"))


async def test_where_the_kernel_confines_files_nobody_is_asked(
    lab: Lab, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confined = linux_support(7, True)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: confined)
    person = Person("declined")
    assert ran(await call(lab, "check_environment", person, environment="sums_v1"))
    assert person.questions == []


async def test_a_pulled_archive_brings_no_hidden_files(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`prime` unpacks hidden files too, and git would run the command of such a `.git/config` at the next status."""
    hidden = (".git/config", ".git/HEAD", "sums/.vscode/tasks.json", ".envrc", ".gitignore", ".prime/other")

    async def env_pull(self: Any, ref: str, target: Path) -> None:
        target.mkdir(exist_ok=True)
        (target / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "1.0"\n', encoding="utf-8")
        for path in (*hidden, ".prime/.env-metadata.json"):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text("{}", encoding="utf-8")

    monkeypatch.setattr(type(lab.prime), "env_pull", env_pull)
    report = await call(lab, "create_environment", None, name="taken", hub="them/sums@1.0")
    assert report.status == "passed", report
    folder = lab.workspace.environments / "taken"
    found = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if "/." in f"/{p.relative_to(folder)}"]
    assert sorted(found) == [".prime", ".prime/.env-metadata.json"]
    assert report.data["hidden_left_out"] == [
        '".envrc"',
        '".git"',
        '".gitignore"',
        '"sums/.vscode"',
    ]
