"""A call that spends or publishes plans once: what it starts of the real `prime`, before and after its question."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.hub.hub_files import FetchedHubFiles, fetch_latest_files, has_hub_files
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.prime.program import PrimeProgram
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk

pytestmark = pytest.mark.anyio
LONG = CONFIG.replace("max_steps = 20", "max_steps = 30")

SENDING = [["train", "list"], ["train", "run"]]
"""Right before a run is sent, the platform is asked whether it has one of that name which the ledger does not know."""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The verb of every `prime` that is started; `--version`, once in the life of a server, among them."""
    verbs: list[str] = []
    whole = PrimeProgram._start

    async def counted(self: PrimeProgram, argv: Any, *rest: Any) -> Any:
        if argv[1] == "-c":
            asked = [
                " ".join(w for w in words[:3] if w != "--plain" and w[:2] != "-n") for words in json.loads(argv[3])
            ]
            verbs.append(f"together: {', '.join(asked)}")
        else:
            verbs.append(" ".join(str(word) for word in argv[1:4] if not str(word).startswith(("/", "--plain", "-n"))))
        return await whole(self, argv, *rest)

    monkeypatch.setattr(PrimeProgram, "_start", counted)
    # What is kept for a minute would be asked again where a loaded machine needs longer than that between two calls.
    monkeypatch.setattr("prime_lab_mcp.lab.prime.client.KEEP_SECONDS", 3600.0)
    monkeypatch.setattr("prime_lab_mcp.lab.hub.hub_files.KEEP_SECONDS", 3600.0)
    monkeypatch.setattr("prime_lab_mcp.lab.prime.program._AHEAD_SECONDS", 3600.0)
    return verbs


class Person:
    """Approves, and notes what was started until each question."""

    def __init__(self, starts: list[str]) -> None:
        self.starts = starts
        self.questions: list[str] = []
        self.before: list[str] = []

    async def ask(self, question: str) -> Any:
        self.questions.append(question)
        self.before = list(self.starts)
        self.starts.clear()
        return "approved"


def of_the_hub(verbs: list[str]) -> list[str]:
    """What the Hub was asked, in processes of their own and among several questions of one process."""
    single = [v for verb in verbs for v in verb.removeprefix("together: ").split(", ")]
    return [verb for verb in single if verb.startswith("env ")]


def forget_answers(at: Desk) -> None:
    """Whoever the account is, its teams and fetched files are kept for a minute."""
    at.lab.prime._account = at.lab.prime._teams = None
    at.lab.memory(FetchedHubFiles).forget("primeintellect/reverse-text")


TOGETHER = "together: whoami, teams list -o, wallet 1, env status primeintellect/reverse-text, env pull"
"""One process answers whose an environment is, what the wallet holds, what the Hub lists, and fetches its files."""


async def test_a_checked_config_is_asked_about_after_one_start_and_the_hub_is_asked_once(
    at: Desk, starts: list[str]
) -> None:
    forget_answers(at)
    at.config(LONG + "# checked before\n", "configs/rl/checked.toml")
    calls = Calls(at.lab, TOOLS, References())
    assert (await calls.execute("check_training_config", {"path": "configs/rl/checked.toml"})).status == "passed"
    starts.clear()
    person = Person(starts)
    report = await calls.execute("submit_training", {"config": "configs/rl/checked.toml"}, ask=person.ask)
    assert (report.status, len(person.questions)) == ("passed", 1), report
    assert person.before == [TOGETHER]
    assert [verb.split()[:2] for verb in starts] == SENDING


async def test_a_config_that_nobody_checked_is_asked_about_after_two_starts(at: Desk, starts: list[str]) -> None:
    """The second start asks for the platform's verdict on the config."""
    await at.lab.prime.version()
    at.lab.prime._models = None
    forget_answers(at)
    at.config(LONG + "# checked by the call\n", "configs/rl/unchecked.toml")
    starts.clear()
    person = Person(starts)
    calls = Calls(at.lab, TOOLS, References())
    report = await calls.execute("submit_training", {"config": "configs/rl/unchecked.toml"}, ask=person.ask)
    assert report.status == "passed", report
    assert len(person.before) == 2, person.before
    assert person.before[1] == "train validate"
    assert of_the_hub(person.before) == ["env status primeintellect/reverse-text", "env pull"]
    assert [verb.split()[:2] for verb in starts] == SENDING


@pytest.mark.parametrize(("version", "steps"), [("", 41), ("@0.2.0", 42)], ids=["latest", "pinned"])
async def test_an_environment_without_a_config_is_asked_about_after_two_starts(
    at: Desk, starts: list[str], version: str, steps: int
) -> None:
    """The first start asks whatever writing the config, the gate and the question need."""
    await at.lab.prime.version()
    at.lab.prime._models = None
    forget_answers(at)
    starts.clear()
    person = Person(starts)
    given = {"environment": f"primeintellect/reverse-text{version}", "steps": steps}
    report = await Calls(at.lab, TOOLS, References()).execute("submit_training", given, ask=person.ask)
    assert report.status == "passed", report
    assert len(person.before) == 2, person.before
    assert person.before[1] == "train validate"
    assert of_the_hub(person.before) == ["env status primeintellect/reverse-text", "env pull"]
    assert [verb.split()[:2] for verb in starts] == SENDING
    config = (at.workspace / report.data["config_path"]).read_text(encoding="utf-8")
    assert 'id = "primeintellect/reverse-text@0.2.0"' in config


async def test_the_latest_archive_counts_only_as_the_version_that_it_states(at: Desk, tmp_path: Path) -> None:
    """A push between the look at the Hub and the pull must not pass for the version that was looked up."""
    name = "primeintellect/reverse-text"
    at.lab.memory(FetchedHubFiles).forget(name)
    for version, kept in (("0.1.9", False), ("0.2.0", True)):
        await fetch_latest_files(at.lab, name, version, tmp_path / version)
        assert has_hub_files(at.lab, name, version, wheel=False) == kept


async def test_a_token_carries_out_the_plan_that_was_asked_about(at: Desk, starts: list[str]) -> None:
    at.config(LONG + "# by token\n", "configs/rl/token.toml")
    calls = Calls(at.lab, TOOLS, References())
    given = {"config": "configs/rl/token.toml"}
    asked = await calls.execute("submit_training", given)
    assert asked.status == "needs_confirmation", asked
    starts.clear()
    sent = await calls.execute("submit_training", {**given, "confirm": asked.data["confirm"]})
    assert sent.status == "passed", sent
    assert [verb.split()[:2] for verb in starts] == SENDING


async def test_an_answer_to_other_files_is_no_answer(at: Desk) -> None:
    path = at.config(LONG + "# first\n", "configs/rl/other.toml")
    calls = Calls(at.lab, TOOLS, References())
    given = {"config": "configs/rl/other.toml"}
    asked = await calls.execute("submit_training", given)
    path.write_text(LONG + "# second\n", encoding="utf-8")
    again = await calls.execute("submit_training", {**given, "confirm": asked.data["confirm"]})
    assert again.status == "needs_confirmation", again
    assert again.findings[0].code == "intent-changed"
    assert again.data["confirm"] != asked.data["confirm"]


async def test_files_that_change_while_the_question_is_open_are_not_sent(at: Desk, starts: list[str]) -> None:
    path = at.config(LONG + "# before\n", "configs/rl/open.toml")

    async def edits(question: str) -> Any:
        path.write_text(LONG + "# after\n", encoding="utf-8")
        starts.clear()
        return "approved"

    report = await Calls(at.lab, TOOLS, References()).execute(
        "submit_training", {"config": "configs/rl/open.toml"}, ask=edits
    )
    assert (report.status, report.findings[0].code) == ("error", "intent-changed")
    assert starts == []


async def test_a_submission_that_its_gate_refuses_runs_no_check(at: Desk, starts: list[str]) -> None:
    text = LONG.replace("primeintellect/reverse-text@0.2.0", "primeintellect/reverse-text@9.9.9")
    at.config(text, "configs/rl/refused-by-gate.toml")
    report = await Calls(at.lab, TOOLS, References()).execute(
        "submit_training", {"config": "configs/rl/refused-by-gate.toml"}
    )
    assert report.status == "blocked", report
    assert {verb.split()[0] for verb in starts} <= {"together:", "env", "--version"}, starts
    assert not at.lab.ledger.evidence(tool="check_training_config", config_sha256=_sha256(text))


async def test_a_push_asks_the_hub_once_before_its_question_and_compares_after_sending(
    at: Desk, starts: list[str]
) -> None:
    at.environment("planned")
    taken = await at.lab.snapshot("planned")
    toolchain = {DISTRIBUTIONS: await present_distributions(at.lab, taken)}
    for tool in ("check_environment", "test_reward", "check_reward_distribution"):
        row = Evidence(tool, "passed", at.lab.key, "planned", taken.source, taken.content, toolchain=toolchain)
        at.lab.ledger.record(row)
    await at.lab.prime.version()
    at.lab.prime._account = None
    starts.clear()
    person = Person(starts)
    calls = Calls(at.lab, TOOLS, References())
    report = await calls.execute("push_environment", {"environment": "planned"}, ask=person.ask)
    assert (report.status, len(person.questions)) == ("passed", 1), report
    assert len(person.before) <= 2, person.before
    assert len(of_the_hub(person.before)) == 1
    sent, *looks = [verb.split()[:2] for verb in starts]
    assert sent == ["env", "push"]
    assert sorted(looks) == [["env", "info"], ["env", "pull"], ["env", "status"]], starts


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_the_check_of_a_config_takes_two_starts(at: Desk, starts: list[str]) -> None:
    await at.lab.prime.version()
    at.lab.prime._models = None
    forget_answers(at)
    at.config(LONG + "# checked alone\n", "configs/rl/alone.toml")
    starts.clear()
    report = await Calls(at.lab, TOOLS, References()).execute(
        "check_training_config", {"path": "configs/rl/alone.toml"}
    )
    assert report.status == "passed", report
    assert sorted(starts) == [
        "together: train models -o, wallet 1, env status primeintellect/reverse-text",
        "train validate",
    ]
