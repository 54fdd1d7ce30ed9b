"""What a reward sees in our scoring and in a witness is what it sees in a rollout of verifiers, or is named.

A reward could tell a test from training by whatever differs. Each difference below has its reason, and reading one of
those that last is named in reports and questions (rewards/rollout_reads.py).
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prime_lab_mcp.lab.worker.child as child
from prime_lab_mcp.lab.rewards.surroundings import find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_phrases
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile
from tests.support.interpreters import older

pytestmark = pytest.mark.anyio
PROGRAM = Path(__file__).with_name("seen_rollouts.py")
V1 = """
import seen
import verifiers.v1 as vf

class Kept(vf.State):
    won: bool = False
    tried: list[str] = []

class Data(vf.TaskData):
    answer: str

class SampleTask(vf.Task[Data, Kept]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        seen.see(trace=trace, task=self)
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def long(self, trace: vf.Trace) -> float:
        return 1.0

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        yield SampleTask(Data(prompt="2 + 2?", system_prompt="Only the number.", answer="4"), self.config.task)

__all__ = ["SampleTaskset"]
"""
V0 = """
import seen
import verifiers as vf
from datasets import Dataset

def correct(prompt, completion, answer, info, task, state) -> float:
    seen.see(prompt=prompt, completion=completion, answer=answer, info=info, task=task, state=state)
    return float(answer in str(completion))

def load_environment(**kwargs):
    rows = [{"question": "2 + 2?", "answer": "4", "info": {"level": 1}}]
    rubric = vf.Rubric(funcs=[correct])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric, system_prompt="Only the number.")
"""
UNSTABLE = {r"trace\.id": "random in every rollout, so that a reward that depends on it varies by itself"}
DIFFERENT_V1 = {
    r"trace\.agent\.(config|runtime)": "the client, harness, model and runtime of the run: `trace.agent.config.model`",
    r"trace\.(branches\[0\]\.)?calls\[0\]\.model": "the model of the run: `trace.calls[0].model`",
    r"trace\.(branches\[0\]\.)?calls\[0\]\.sampling": "the sampling of the run: `trace.calls[0].sampling`",
    r"trace\.(branches\[0\]\.)?calls\[0\]\.time": "the clock: `trace.calls[0].time`",
    r"trace\.(branches\[0\]\.)?calls\[0\]\.usage": "tokens as the endpoint counts them: `trace.calls[0].usage`",
    r"trace\.branches\[0\]\.(last_)?usage": "tokens as the endpoint counts them: `trace.branches[0].last_usage`",
    r"trace\.(branches\[0\]\.)?num_\w+_tokens": "tokens as the endpoint counts them: `trace.num_total_tokens`",
    r"trace\.usage": "tokens as the endpoint counts them: `trace.usage`",
    r"trace\.(branches\[0\]\.)?nodes\[\d\]\.timestamp": "the clock: `trace.nodes[0].timestamp`",
    r"trace\.(branches\[0\]\.)?nodes\[\d\]\.renderer_token_ids": "tokens: `trace.nodes[0].renderer_token_ids`",
    r"trace\.timing\.": "the clock: `trace.timing.start`",
    r"(trace\.)?task\.data(\.\w+)*:set": "rebuilt from all fields: `trace.task.data.model_fields_set`",
    r"trace(\.(branches\[0\]\.)?(nodes\[\d\]|calls\[\d\])|\.agent)?:set": "`trace.model_fields_set`",
}  # fmt: skip
DIFFERENT_V0 = {
    r"state\['client'\]": "the client of the run: `state['client']`",
    r"state\['sampling_args'\]": "the sampling of the run: `state['sampling_args']`",
    r"state\['timing'\]": "the clock: `state['timing']`",
    r"state\['trajectory'\]\[0\]\['response'\]": "the reply of the client: `state['trajectory'][0]['response']`",
    r"state\['trajectory'\]\[0\]\['trajectory_id'\]": "random: `state['trajectory'][0]['trajectory_id']`",
    r"state\['trajectory_id'\]": "random: `state['trajectory_id']`",
}


def seen(python: Path, api: str, module: str, folder: Path) -> list[dict[str, str]]:
    file = folder / "sample.py"
    file.write_text(module, encoding="utf-8")
    command = [str(python), str(PROGRAM), api, str(Path(str(child.__file__)).parent), str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert [rollout["reward"] for rollout in told["rollout"]["rollouts"]] == [1.0], told["rollout"]
    tables: list[dict[str, str]] = told["seen"]
    assert len(tables) == 3
    return tables


def unexplained(tables: list[dict[str, str]], reasons: dict[str, str]) -> list[str]:
    """The paths at which worker, witness and rollout differ without a reason."""
    paths = {path for table in tables for path in table}
    different = sorted(path for path in paths if len({table.get(path) for table in tables}) > 1)
    return [path for path in different if not any(re.match(reason, path) for reason in reasons)]


def test_a_reward_of_v1_sees_the_trace_the_state_and_the_task_that_a_rollout_shows(tmp_path: Path) -> None:
    tables = seen(Path(sys.executable), "v1", V1, tmp_path)
    assert unexplained(tables, UNSTABLE | DIFFERENT_V1) == []
    at_scoring = ["trace.ok", "trace.has_error", "trace.is_completed", "trace.stop_condition"]
    assert [tables[2][path] for path in at_scoring] == [
        "bool False", "bool True", "bool True", "str 'agent_completed'",
    ]  # fmt: skip


@pytest.mark.parametrize("verifiers", ["verifiers>=0.1.14,<0.2", "verifiers==0.3.1"])
async def test_a_reward_of_v0_sees_the_state_that_a_rollout_shows(tmp_path: Path, verifiers: str) -> None:
    interpreter = await older(verifiers)
    assert unexplained(seen(interpreter.python, "v0", V0, tmp_path), DIFFERENT_V0) == []


@pytest.mark.parametrize("reason", [*DIFFERENT_V1.values(), *DIFFERENT_V0.values()])
def test_a_read_of_what_differs_is_named(reason: str) -> None:
    (read,) = re.findall(r"`(.*)`", reason)
    head = "import verifiers.v1 as vf\nclass Sums(vf.Task):\n    @vf.reward\n    async def paid(self, trace):\n"
    text = f"{head}        {read}\n"
    if read.startswith("state"):
        text = f"import verifiers as vf\ndef reward(state):\n    {read}\nR = vf.Rubric(funcs=[reward])\n"
    code = SourceCode((SourceFile("sums.py", text, ast.parse(text)),))
    phrases = "".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))
    assert "how a rollout was sampled" in phrases
