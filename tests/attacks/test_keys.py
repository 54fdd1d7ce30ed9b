"""A key of the server's environment goes to the host that a person named for it, and to no host that a call names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.cli import main as command_line
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server import main as server
from prime_lab_mcp.server import rendering
from tests.attacks.proven import NAME, proven_calls
from tests.lab.evals.scripted import ScriptedModel, adds, serving

pytestmark = pytest.mark.anyio
KEY = "zq-unmistakable-key-4711-of-the-user"
VARIABLES = ("PRIME_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY", "VLLM_API_KEY", "LAB_ENDPOINT_SECRET")
SMALL = {"environment": NAME, "model": "scripted", "num_examples": 2, "rollouts": 1, "wait_seconds": 120}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose environment is full of secrets."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, KEY)


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server behind a proxy, and with a mirror of the Hub, that want a password. Nothing listens there."""
    proxy = f"http://user:{KEY}@127.0.0.1:9"
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, proxy)
    monkeypatch.setenv("HF_ENDPOINT", f"https://user:{KEY}@huggingface.invalid")


@pytest.fixture
def listener() -> Iterator[ScriptedModel]:
    """The host of whoever makes the call. It records the headers that it gets."""
    with serving(adds) as model:
        yield model


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def everything(report: Report) -> str:
    return f"{report} {rendering.text(rendering.structured(report))}"


def opened(settings: Settings, *endpoints: str) -> Lab:
    """A lab of a server that a person started with `--endpoint`."""
    return Lab(server.settings(str(settings.workspace), str(settings.state_dir), endpoints=endpoints))


@pytest.mark.parametrize("variable", [*VARIABLES, "NOT_SET_ANYWHERE", "HTTPS_PROXY", ""])
async def test_a_call_cannot_send_a_variable_of_the_server_to_an_endpoint(
    lab: Lab, listener: ScriptedModel, variable: str
) -> None:
    calls = await proven_calls(lab)
    report = await calls.execute("run_eval", {**SMALL, "endpoint": f"{listener.url}|{variable}"})
    assert (report.status, codes(report)) == ("error", ["endpoint-key-in-call"]), report
    assert listener.headers == []
    assert KEY not in everything(report)
    assert EvaluationJobs(lab).list() == []


@pytest.mark.parametrize("argument", ["judge", "attacker"])
@pytest.mark.parametrize("variable", ["PRIME_API_KEY", "HF_TOKEN"])
async def test_a_call_cannot_send_a_variable_of_the_server_to_a_judge_or_an_attacker(
    lab: Lab, listener: ScriptedModel, variable: str, argument: str
) -> None:
    calls = await proven_calls(lab)
    named = f"{listener.url}|{variable}" + (" model" if argument == "attacker" else "")
    report = await calls.execute("test_reward", {"environment": NAME, argument: named})
    assert (report.status, codes(report)) == ("error", ["endpoint-key-in-call"]), report
    assert listener.headers == []
    assert KEY not in everything(report)


async def test_no_tool_has_another_argument_that_names_an_endpoint(lab: Lab) -> None:
    calls = await proven_calls(lab)
    named = {
        (name, field)
        for name, tool in calls.tools.items()
        for field in tool.args.model_fields
        if any(word in field for word in ("endpoint", "judge", "attacker", "url", "key"))
    }
    assert named == {("run_eval", "endpoint"), ("test_reward", "judge"), ("test_reward", "attacker")}


async def test_the_refusal_names_the_line_with_which_a_person_allows_it(
    lab: Lab, settings: Settings, listener: ScriptedModel
) -> None:
    calls = await proven_calls(lab)
    refused = await calls.execute("run_eval", {**SMALL, "endpoint": f"{listener.url}|LAB_ENDPOINT_SECRET"})
    words = shlex.split(refused.findings[0].fix)
    line = words[words.index("--endpoint") + 1].rstrip(",")
    (endpoint,) = opened(settings, line).settings.endpoints
    assert (endpoint.url, endpoint.variable) == (listener.url, "LAB_ENDPOINT_SECRET")
    assert refused.findings[0].fix.endswith(f"pass the name {endpoint.name}.")


@pytest.mark.parametrize("text", ["'; touch /tmp/x; '", "$(id)", "`id`", "sk-0123456789abcdefghijkl"])
async def test_the_line_for_a_person_holds_nothing_that_a_shell_would_run_and_no_key(
    lab: Lab, listener: ScriptedModel, text: str
) -> None:
    calls = await proven_calls(lab)
    for endpoint in (f"{listener.url}|{text}", f"{listener.url}/{text}|HOME"):
        report = await calls.execute("run_eval", {**SMALL, "endpoint": endpoint})
        assert report.status == "error"
        assert codes(report)[0] in ("endpoint-key-in-call", "endpoint-unknown")
        assert text not in report.findings[0].fix


@pytest.mark.slow
async def test_an_endpoint_that_a_call_names_gets_no_secret_and_environment_code_neither(
    lab: Lab, listener: ScriptedModel, proxies: None
) -> None:
    calls = await proven_calls(lab)
    report = await calls.execute("run_eval", {**SMALL, "endpoint": listener.url})
    assert report.data.get("completed") == 2, report
    assert len(listener.headers) >= 3
    assert [text for text in listener.headers if KEY in text or "authorization" in text.lower()] == []
    work = EvaluationJobs(lab).files(str(report.data["id"])).work
    assert [name for name, value in json.loads((work / "seen.json").read_text()).items() if KEY in value] == []
    assert [path for path in lab.settings.state_dir.rglob("*") if path.is_file() and KEY in _text(path)] == []


@pytest.mark.slow
async def test_a_name_that_a_person_gave_gets_its_key_and_nothing_else(
    settings: Settings, listener: ScriptedModel
) -> None:
    with serving(adds) as other:
        lab = opened(settings, f"lab={listener.url}|LAB_ENDPOINT_SECRET", f"other={other.url}")
        calls = await proven_calls(lab)
        given = {**SMALL, "endpoint": "lab"}
        asked = await calls.execute("run_eval", given)  # An endpoint with a key and without a price list asks.
        report = await calls.execute("run_eval", {**given, "confirm": asked.data["confirm"]})
        assert report.data.get("completed") == 2, report
        assert listener.keys == {f"Bearer {KEY}"}
        assert other.headers == []
        assert KEY not in everything(report)
        await lab.close()


async def test_endpoints_of_the_state_directory_count_and_the_command_line_goes_before_them(settings: Settings) -> None:
    settings.state_dir.mkdir(parents=True)
    (settings.state_dir / "endpoints.toml").write_text(
        'lab = "https://models.example.com/v1|LAB_KEY"\nplain = "http://localhost:9/v1"\n', encoding="utf-8"
    )
    found = opened(settings, "lab=https://other.example.com/v1").settings.endpoints
    assert {(e.name, e.url, e.variable) for e in found} == {
        ("lab", "https://other.example.com/v1", None),
        ("plain", "http://localhost:9/v1", None),
    }


@pytest.mark.parametrize(
    "line",
    [
        "https://models.example.com/v1|LAB_KEY",
        "prime=https://models.example.com/v1|PRIME_API_KEY",
        "vllm=http://localhost:8001/v1",
        "url=https://models.example.com/v1",
        "lab=http://models.example.com/v1|LAB_KEY",
        "lab=https://user:secret@models.example.com/v1",
        f"lab=https://models.example.com/v1|{KEY}",
        "lab=",
    ],
)
def test_a_pair_that_would_mislead_or_leak_is_refused_when_the_server_starts(settings: Settings, line: str) -> None:
    with pytest.raises(BadInput) as refused:
        opened(settings, line)
    assert KEY not in str(refused.value)
    assert "secret@" not in str(refused.value)


def test_the_terminal_tells_a_persons_endpoint_from_the_argument_of_a_tool(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    taken: list[tuple[Any, ...]] = []
    monkeypatch.setattr("prime_lab_mcp.cli.terminal.call", lambda *given: taken.append(given) or 0)
    where = ["--workspace", str(settings.workspace), "--state-dir", str(settings.state_dir)]
    pair = "lab=https://models.example.com/v1|LAB_KEY"
    for given in (
        ["call", "--endpoint", pair, *where, "run_eval", "--endpoint", "lab"],
        ["call", *where, "run_eval", f"--endpoint={pair}", "--endpoint=lab"],
    ):
        assert command_line.main(given) == 0
        chosen, tool, _, rest, _ = taken.pop()
        assert [e.name for e in chosen.endpoints] == ["lab"]
        assert (tool, " ".join(rest).replace("=", " ")) == ("run_eval", "--endpoint lab")


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
