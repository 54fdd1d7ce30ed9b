"""Ways through the workflow with the real programs: procedural, the older generation, no account. None deadlocks."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.main import open_lab
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.interpreters import DATASETS, OLDEST, share

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=6, group="whole walks")]
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
README = "# {name}\n\n## Dataset\nMade up.\n\n## Input and output format\nA sum; `<answer>NUMBER</answer>`.\n\n"
README += "## Reward breakdown\n`correct_answer`: 1.0.\n\n## Usage\n`vf-eval {name}`\n"
PYPROJECT = """[project]
name = "{name}"
version = "0.1.0"
description = "Adding numbers."
requires-python = ">=3.11"
dependencies = [{requires}]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["*.py", "{module}/**"]
"""
PROCEDURAL = '''"""Sums without end."""

import itertools
import random
import re

import verifiers.v1 as vf

SYSTEM = "Add the numbers. Put only the final number inside <answer></answer> tags."
TAG = re.compile(r"<answer>\\s*([+-]?\\d+)\\s*</answer>")


class DiceData(vf.TaskData):
    answer: str


class DiceTask(vf.Task[DiceData]):
    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        reply = trace.last_reply
        found = TAG.findall(reply)
        one = len(found) == 1 and reply.count("<answer>") == 1 and "<think>" not in reply
        return float(one and found[0] == self.data.answer)


class DiceTaskset(vf.Taskset[DiceTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        draw = random.Random(7)
        for _ in itertools.count():
            a, b = draw.randint(10, 999), draw.randint(10, 999)
            data = DiceData(prompt=f"What is {a} + {b}?", system_prompt=SYSTEM, answer=str(a + b))
            yield DiceTask(data, self.config.task)
'''
OLDER = '''"""Sums, as verifiers 0.1 to 0.3 has them."""

import verifiers as vf
from datasets import Dataset

SYSTEM = "Add the numbers. Put only the final number inside <answer></answer> tags."


def _rows(start, count):
    return [{"question": f"What is {n} + {2 * n + 3}?", "answer": str(3 * n + 3)} for n in range(start, start + count)]


def load_environment():
    parser = vf.XMLParser(["answer"], answer_field="answer")

    async def correct_answer(completion, answer, parser) -> float:
        text = completion[-1]["content"] if completion else ""
        if text.count("<answer>") != 1 or "<think>" in text:
            return 0.0
        return 1.0 if (parser.parse_answer(completion) or "").strip() == answer else 0.0

    rubric = vf.Rubric(funcs=[correct_answer], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(_rows(10, 80)), eval_dataset=Dataset.from_list(_rows(200, 70)),
        rubric=rubric, parser=parser, system_prompt=SYSTEM,
    )
'''


def write(settings: Settings, name: str, requires: str, files: dict[str, str]) -> None:
    folder = settings.workspace / "environments" / name.replace("-", "_")
    module = name.replace("-", "_")
    files = files | {
        "pyproject.toml": PYPROJECT.format(name=name, module=module, requires=requires),
        "README.md": README.format(name=name),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@asynccontextmanager
async def opened(tmp_path: Path, *, rehearsal: bool) -> AsyncIterator[tuple[Settings, Any]]:
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state", rehearsal=rehearsal)
    share(settings)
    lab = open_lab(settings)
    calls = Calls(lab, TOOLS, References())

    async def ask(question: str) -> Any:
        return "approved"

    async def call(tool: str, expected: str | tuple[str, ...], **arguments: Any) -> Report:
        report = await calls.execute(tool, arguments, ask=ask)
        assert report.status in ((expected,) if isinstance(expected, str) else expected), report
        return report

    yield settings, call
    await lab.close()


async def test_a_procedural_environment_without_end_goes_all_the_way_to_a_run(tmp_path: Path) -> None:
    async with opened(tmp_path, rehearsal=True) as (settings, call):
        init = 'from dice.taskset import DiceTaskset\n\n__all__ = ["DiceTaskset"]\n'
        files = {"dice/__init__.py": init, "dice/taskset.py": PROCEDURAL}
        write(settings, "dice", '"verifiers>=0.4.0,<0.5"', files)
        checked = await call("check_environment", "passed", environment="dice")
        assert checked.data["infinite"] is True
        await call("test_reward", "passed", environment="dice")
        await call("run_eval", "passed", environment="dice", model=MODEL, num_examples=32, rollouts=4, wait_seconds=180)
        summary = await call("read_eval", "passed")
        zeros = await call("read_eval", "passed", view="zeros")
        rollouts = await call("read_eval", "passed", view="rollouts", where="zero", page=99)
        assert summary.data["rollouts"] == zeros.data["rollouts"] == 128
        assert rollouts.data["page"] == rollouts.data["pages"]
        assert {row["reward"] for row in rollouts.data["rollouts"]} <= {0.0, None}
        await call("push_environment", "passed", environment="dice")
        run = await call("submit_training", "passed", environment="dice", model=MODEL, steps=10)
        assert run.data["id"].startswith("run_")


async def test_an_older_environment_goes_up_to_the_push_and_is_then_told_what_to_do(tmp_path: Path) -> None:
    async with opened(tmp_path, rehearsal=True) as (settings, call):
        write(settings, "sums-v0", f'"{OLDEST}", "{DATASETS}"', {"sums_v0.py": OLDER})
        checked = await call("check_environment", "passed", environment="sums-v0")
        assert (checked.data["api"], checked.data["trainable"]) == ("v0", False)
        await call("test_reward", "passed", environment="sums-v0")
        await call(
            "run_eval", "passed", environment="sums-v0", model=MODEL, num_examples=40, rollouts=4, wait_seconds=240
        )
        pushed = await call("push_environment", "passed", environment="sums-v0")
        assert pushed.data["runtime"] == "v0"
        refused = await call("submit_training", "blocked", environment="sums-v0", model=MODEL, steps=10)
        assert "v0-not-trainable" in {finding.code for finding in refused.findings}


class _Model(BaseHTTPRequestHandler):
    """Adds right every second time it is asked."""

    asked = 0

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "own-model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        a, b = (int(n) for n in body["messages"][-1]["content"].strip("What is?").split(" + "))
        _Model.asked += 1
        message = {"role": "assistant", "content": f"<answer>{a + b + _Model.asked % 2}</answer>"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        self._send(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "own-model",
                "choices": [choice],
                "usage": usage,
            }
        )

    def _send(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def own_endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()


async def test_without_an_account_everything_up_to_the_push_works(
    tmp_path: Path, own_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("PRIME_API_KEY", "PRIME_API_BASE_URL", "PRIME_TEAM_ID"):
        monkeypatch.delenv(name, raising=False)
    async with opened(tmp_path, rehearsal=False) as (settings, call):
        init = 'from dice.taskset import DiceTaskset\n\n__all__ = ["DiceTaskset"]\n'
        write(settings, "dice", '"verifiers>=0.4.0,<0.5"', {"dice/__init__.py": init, "dice/taskset.py": PROCEDURAL})
        ready = await call("preflight", "passed")
        assert ready.data["capabilities"]["local"]["state"] == "ok"
        assert ready.data["capabilities"]["account"]["state"] == "missing"
        await call("push_environment", "blocked", environment="dice")
        await call("test_reward", "passed", environment="dice")
        await call(
            "run_eval",
            "passed",
            environment="dice",
            model="own-model",
            endpoint=own_endpoint,
            num_examples=32,
            rollouts=4,
            wait_seconds=180,
        )
        refused = await call("push_environment", "blocked", environment="dice")
        assert [need.tool for need in refused.unmet] == ["preflight"]
        assert "not-logged-in" in {finding.code for finding in refused.findings}
