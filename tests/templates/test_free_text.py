"""The template free_text: what is settled without a judge, how one is asked, and the free steps with a real one."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tomlkit

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.conftest import TEMPLATES
from tests.support.assembled import assembled
from tests.templates.loading import modules

pytestmark = pytest.mark.anyio
_LOADED = modules("free_text", "replies", "rules", "shape")
replies, rules, shape = _LOADED["replies"], _LOADED["rules"], _LOADED["shape"]
QUESTION = "Why was the delivery at the mill late on Monday, and who found out about it?"
REFERENCE = "It was late because the road by the bridge is closed, which Bruno found out."


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [REFERENCE, REFERENCE.upper(), f" {REFERENCE[:-1]} !", REFERENCE.replace(" ", "\n")])
def test_the_reference_itself_is_right_without_a_judge(answer: str) -> None:
    assert rules.settled(answer, QUESTION, REFERENCE) == 1.0


@pytest.mark.parametrize(
    "answer",
    [None, "...", "TODO"[:0], "x " * 5000, QUESTION, QUESTION.lower(), f"{QUESTION} Yes.", QUESTION[:60], "\u0301"],
)
def test_nothing_and_the_question_repeated_are_worth_nothing_without_a_judge(answer: str | None) -> None:
    assert rules.settled(answer, QUESTION, REFERENCE) == 0.0


@pytest.mark.parametrize(
    "answer", ["A closed road, says Bruno.", f"{QUESTION} {REFERENCE}", "the delivery at the mill"]
)
def test_other_answers_are_left_to_the_judge(answer: str) -> None:
    assert rules.settled(answer, QUESTION, REFERENCE) is None


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<answer>a < b</answer>", "a < b"),
        ("<think><answer>no</answer></think><answer>yes</answer>", "yes"),
        ("<answer>yes</answer> <answer> yes </answer>", "yes"),
        ("<answer>yes</answer><answer>no</answer>", None),
        ("<answer>yes", None),
        ("yes", None),
        ("<think><answer>yes</answer>", None),
        ("<answer> </answer>", None),
    ],
)
def test_the_answer_is_what_stands_in_the_tags(reply: str, answer: str | None) -> None:
    assert replies.answer_of(reply) == answer


def test_rows_of_instruction_datasets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", ("messages",))
    monkeypatch.setattr(shape, "ANSWER_COLUMN", "messages")
    chat = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": REFERENCE}]
    assert shape.canonical({"messages": chat}) == {"question": QUESTION, "answer": REFERENCE}
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", ("instruction", "context"))
    monkeypatch.setattr(shape, "ANSWER_COLUMN", "response")
    dolly = {"instruction": "Sum up.", "context": "A text.", "response": REFERENCE}
    assert shape.canonical(dolly) == {"question": "Sum up.\n\nA text.", "answer": REFERENCE}
    assert shape.canonical({**dolly, "response": "..."}) is None
    assert shape.canonical({**dolly, "response": "a</answer>b"}) is None


# --- a judge ---------------------------------------------------------------------------------------------------------

_PARTS = re.compile(
    r"\[question (?P<mark>[0-9a-f]{16})\]\n(?P<question>.*)\n\[reference (?P=mark)\]\n(?P<reference>.*)"
    r"\n\[answer (?P=mark)\]\n(?P<answer>.*)\n\[end (?P=mark)\]",
    re.S,
)


class _Judge(ThreadingHTTPServer):
    """Grades by the words that answer and reference have in common; for an answer with a text of `says`, says that."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, object]] = []
        self.keys: set[str | None] = set()
        self.says: dict[str, str | None] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def verdict(self, prompt: str) -> str:
        found = _PARTS.search(prompt)
        assert found is not None, prompt
        ours, theirs = (set(re.findall(r"\w+", found[part].lower())) for part in ("answer", "reference"))
        share = len(ours & theirs) / max(1, len(ours | theirs))
        return f"GRADE: {4 if share > 0.95 else 2 if share > 0.8 else 0}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Judge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        self.server.keys.add(self.headers["authorization"])
        prompt = body["messages"][0]["content"]
        said = next((s for part, s in self.server.says.items() if part in prompt), self.server.verdict(prompt))
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        told = {"id": "j", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        content = json.dumps(told | {"usage": usage}).encode()
        self.send_response(200 if said is not None else 503)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def judge() -> Iterator[_Judge]:
    server = _Judge()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


async def tried(
    tmp_path: Path, judge: _Judge, monkeypatch: pytest.MonkeyPatch, **asked: object
) -> tuple[object, object]:
    """check_environment and test_reward of the template, with its judge at a loopback address."""
    monkeypatch.setenv("LOOPBACK_JUDGE_KEY", "key-of-the-judge")
    folder = tmp_path / "workspace" / "environments" / "free_text_template"
    shutil.copytree(assembled("free_text"), folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    project = tomlkit.parse((folder / "pyproject.toml").read_text(encoding="utf-8"))
    endpoint = {"base_url": judge.url, "api_key_var": "LOOPBACK_JUDGE_KEY"}
    project["tool"]["prime-lab"] = {"check_args": {"task": {"judge": endpoint}}}  # type: ignore[index]
    (folder / "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
    settings = Settings(
        workspace=tmp_path / "workspace",
        state_dir=tmp_path / "state",
        templates=TEMPLATES,
        allow_env=("LOOPBACK_JUDGE_KEY",),
    )
    lab = Lab(settings)
    try:
        calls = Calls(lab, TOOLS, References())
        checked = await calls.execute("check_environment", {"environment": folder.name})
        return checked, await calls.execute("test_reward", {"environment": folder.name, **asked})
    finally:
        await lab.close()


@pytest.mark.slow
async def test_the_free_steps_pass_with_an_honest_judge_within_reach(
    tmp_path: Path, judge: _Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, tested = await tried(tmp_path, judge, monkeypatch)
    flaws = [f for report in (checked, tested) for f in report.findings if f.severity != "info"]
    assert (checked.status, tested.status, flaws) == ("passed", "passed", [])
    assert tested.data["gold_pass_rate"] == 1.0
    assert {body["model"] for body in judge.asked} == {"openai/gpt-4.1-mini"}
    assert {body["temperature"] for body in judge.asked} == {0.0}
    assert judge.keys == {"Bearer key-of-the-judge"}
    assert not any(REFERENCE in str(body) for body in judge.asked)


@pytest.mark.slow
async def test_a_judge_that_fails_or_gives_no_grade_leaves_the_report_undecided(
    tmp_path: Path, judge: _Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = ["I think it deserves GRADE: 4", "GRADE: 5", "GRADE: -1", "", "4", "GRADE: 4\nGRADE: 0", None]
    judge.says = {f"variant {number}": said for number, said in enumerate(says)}
    text = "<answer>Other words, as many as it takes to be long enough, variant {}.</answer>"
    cases = [
        {"name": f"case {n}", "completion": text.format(n), "task": 0, "expected": "low"} for n in range(len(says))
    ]
    _, tested = await tried(tmp_path, judge, monkeypatch, cases=cases, probes=False, examples=1)
    found = {f.code: f for f in tested.findings if f.severity != "info"}
    assert (tested.status, set(found)) == ("inconclusive", {"reward-judge-unread", "reward-judge-unreachable"})
    for code, number in (("reward-judge-unread", len(says) - 1), ("reward-judge-unreachable", 1)):
        assert {row["case"] for row in found[code].rows} <= {case["name"] for case in cases}
        assert f"for {number} completion" in found[code].message
    assert all(any(f"variant {n}" in str(body) for body in judge.asked) for n in range(len(says)))
