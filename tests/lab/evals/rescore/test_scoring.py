"""Rescoring as a user meets it: a real evaluation, an edit, and the present reward on the stored rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.gates import Need, Subject, standing
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools import check_reward_distribution, run_eval
from prime_lab_mcp.tools.tool import Call
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.scripted import adds, serving
from tests.support.interpreters import DATASETS, OLDEST, PYTHON

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_interpreters"),
    pytest.mark.rotate(share=3, group="rescoring"),
]
NEED = Need("check_reward_distribution", "source")


async def heard(done: float, total: float | None, message: str) -> None:
    """Progress that nobody follows."""


async def call_of(lab: Lab, name: str) -> Call:
    return Call(lab, await lab.snapshot(name), heard, references=None, prove=None)  # type: ignore[arg-type]


async def evaluate(lab: Lab, name: str = "sums_v1", **given: Any) -> Outcome:
    args = run_eval.Args.model_validate({"environment": name, **given})
    call = await call_of(lab, name)
    return await run_eval.run(call, await run_eval.plan(call, args))


async def rescored(lab: Lab, id: str, name: str = "sums_v1", **given: Any) -> Outcome:
    return await evaluate(lab, name, rescore=id, **given)


def codes(found: Outcome) -> list[str]:
    return [f.code for f in found.findings]


def blockers(found: Outcome) -> list[str]:
    return [f.code for f in found.blockers]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def taskset(lab: Lab) -> Path:
    return write_environment(lab.settings.workspace) / "sums_v1" / "taskset.py"


async def opens(lab: Lab, name: str = "sums_v1") -> bool:
    """Whether the distribution's evidence holds for the files as they are."""
    snapshot = await lab.snapshot(name)
    subject = Subject(name, snapshot.source, snapshot.content)
    history = lab.ledger.evidence(lab.key, tool=NEED.tool)
    return standing(NEED, history, subject, lab.platform, set()).why is None


async def run_once(lab: Lab, **given: Any) -> Outcome:
    with serving(adds) as model:
        asked = {"model": "scripted", "endpoint": model.url, "num_examples": 32, "rollouts": 4, "wait_seconds": 120}
        found = await evaluate(lab, **(asked | given))
    assert found.data["state"] == "finished", found
    return found


async def test_a_mended_reward_earns_its_evidence_from_the_stored_rollouts(lab: Lab) -> None:
    code = taskset(lab)
    change(code, "found[-1] == self.data.answer)", 'found[-1] == self.data.answer + ".0")')
    broken = await run_once(lab)
    assert broken.status != "passed"
    change(code, 'self.data.answer + ".0")', "self.data.answer)")

    assert not await opens(lab)
    found = await rescored(lab, broken.data["id"])

    assert (found.status, blockers(found)) == ("passed", []), found
    assert found.summary.startswith(f"Of 128 stored rollouts of {broken.data['id']}, 64 earn more, 0 less, 64 the same")
    told = found.data["rescored"]
    assert {n: told[n] for n in ("changed", "up", "down", "unchanged", "errors", "excluded")} == {
        "changed": 64,
        "up": 64,
        "down": 0,
        "unchanged": 64,
        "errors": 0,
        "excluded": 0,
    }
    assert (told["from"], told["mean_before"], told["mean_after"]) == (broken.data["id"], 0.2, 0.7)
    (first, *_) = told["examples"]
    assert (first["before"], first["after"], first["components"]) == (0.2, 1.2, {"correct": [0.0, 1.0]})
    assert first["reply"].startswith('"<answer>')
    assert (found.data["cost"], found.data["tokens"]) == (0.0, {"prompt": 0, "completion": 0})
    assert await opens(lab)
    job = EvaluationJobs(lab).get(found.data["id"])
    spec = EvaluationJobs(lab).spec(job)
    assert (spec.rescored, spec.model, job.platform) == (broken.data["id"], "scripted", None)
    rows = {r.tool: r for r in lab.ledger.evidence(lab.key, source=job.source)}
    assert rows["run_eval"].endpoint_host == rows[NEED.tool].endpoint_host == spec.endpoint.host

    before, after = (list(EvaluationJobs(lab).rollouts(i)) for i in (broken.data["id"], found.data["id"]))
    assert {r.id: r.task for r in before} == {r.id: r.task for r in after}
    assert {r.id: r.completion_text for r in before} == {r.id: r.completion_text for r in after}
    assert {r.components["correct"][1] for r in after} == {1.0}
    assert len({tuple(r.metrics) for r in after}) == 1 == len([m for m in after[0].metrics if m == "reply_chars"])

    again = await rescored(lab, found.data["id"])
    assert (again.data["id"], again.data["rescored"]) == (found.data["id"], told)
    assert len(EvaluationJobs(lab).list()) == 2
    args = check_reward_distribution.Args.model_validate({"environment": "sums_v1"})
    judged = await check_reward_distribution.run(await call_of(lab, "sums_v1"), args)
    assert (judged.status, judged.data["id"], judged.facts.proves) == ("passed", found.data["id"], True)


async def test_what_the_present_files_change_beside_the_reward_decides_what_is_evidence(lab: Lab) -> None:
    code = taskset(lab)
    was = (await run_once(lab, num_examples=8, rollouts=2)).data["id"]
    original = code.read_text(encoding="utf-8")

    change(code, "answer=str(2 * n + 1)", "answer=str(2 * n + 2 - (n != 3))")  # another gold, the same question
    gold = await rescored(lab, was)
    assert "rescore-prompts-changed" not in codes(gold)
    assert gold.data["rescored"]["excluded"] == 0

    code.write_text(original, encoding="utf-8")
    change(code, 'prompt=f"What is', 'prompt=("Please: " if n % 4 == 0 else "") + f"What is')
    some = await rescored(lab, was)
    assert (some.status, blockers(some)[-1]) == ("inconclusive", "rescore-prompts-changed"), some
    assert 0 < some.data["rescored"]["excluded"] < 16
    assert not await opens(lab)

    code.write_text(original.replace("What is {n}+", "Add up {n}+"), encoding="utf-8")
    every = await rescored(lab, was)
    assert (every.status, codes(every)) == ("inconclusive", ["rescore-prompts-changed"])

    code.write_text(original.replace("size: int = 40", "size: int = 80"), encoding="utf-8")
    more = await rescored(lab, was)
    assert "rescore-prompts-changed" in blockers(more)

    code.write_text(original, encoding="utf-8")
    path = Path(EvaluationJobs(lab).results_path(was))
    path.write_text(path.read_text(encoding="utf-8").replace('"score":0.0', '"score":1.0'), encoding="utf-8")
    with pytest.raises(LabError) as changed:
        await rescored(lab, was)
    assert changed.value.code == "eval-results-changed"


async def test_older_rollouts_do_not_stand_in_for_later_ones(lab: Lab) -> None:
    code = taskset(lab)
    first = await run_once(lab)
    with serving(lambda body, before: "<answer>0</answer>") as model:
        later = await evaluate(lab, model="scripted", endpoint=model.url, num_examples=4, rollouts=2, wait_seconds=120)
    assert (first.status, later.status != "passed") == ("passed", True)
    code.write_text(code.read_text(encoding="utf-8") + "\n# no change\n", encoding="utf-8")

    found = await rescored(lab, first.data["id"])

    assert (found.status, "rescore-not-latest" in blockers(found)) == ("inconclusive", True)
    assert later.data["id"] in found.findings[-1].fix
    assert not await opens(lab)
    for given in ({"model": "another"}, {"env_args": {"size": 3}}, {"hosted": True}):
        with pytest.raises(LabError) as refused:
            await rescored(lab, first.data["id"], **given)
        assert refused.value.code == "bad-input"


CHANCE = "float(bool(found) and found[-1] == self.data.answer and __import__('random').random() < 0.5)"
RIGHT = "float(bool(found) and found[-1] == self.data.answer)"


async def test_a_reward_that_is_no_function_of_the_rollout_is_refused(lab: Lab) -> None:
    code = taskset(lab)
    change(code, RIGHT, CHANCE)
    was = (await run_once(lab, num_examples=16, rollouts=2)).data["id"]
    change(code, CHANCE, RIGHT)
    found = await rescored(lab, was)
    assert (found.status, codes(found)) == ("inconclusive", ["rescore-not-reproducible"]), found
    assert "its own source" in found.findings[0].message

    mended = (await run_once(lab, num_examples=16, rollouts=2)).data["id"]
    change(code, RIGHT, CHANCE)
    found = await rescored(lab, mended)
    assert (found.status, codes(found)) == ("inconclusive", ["rescore-not-reproducible"])
    assert "scored twice" in found.findings[0].message
    assert [j.id for j in EvaluationJobs(lab).list()] == [mended, was]


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize(
    ("reward", "code"),
    [
        ("__import__('os')._exit(7)", "rescore-unfinished"),
        ("__import__('urllib.request').request.urlopen('http://192.0.2.1/', timeout=1)", "rescore-needs-judge"),
    ],
)
async def test_a_hostile_reward_ends_nothing_but_its_own_process(lab: Lab, reward: str, code: str) -> None:
    path = taskset(lab)
    was = (await run_once(lab, num_examples=8, rollouts=1)).data["id"]
    change(path, RIGHT, f"float({reward})")
    found = await rescored(lab, was)
    assert (found.status, codes(found)) == ("inconclusive", [code]), found
    assert len(EvaluationJobs(lab).list()) == 1


async def test_a_reward_that_raises_leaves_its_rollouts_without_one_and_a_mended_one_recovers_them(lab: Lab) -> None:
    path = taskset(lab)
    was = (await run_once(lab, num_examples=8, rollouts=2)).data["id"]
    original = path.read_text(encoding="utf-8")
    change(path, "float(bool(found) and found[-1] == self.data.answer)", "1 / (found[-1] == self.data.answer)")
    raised = await rescored(lab, was)
    told = raised.data["rescored"]
    assert (told["errors"], told["unchanged"], raised.data["errors"]) == (8, 8, 8)
    assert {"rescore-raises", "eval-errors"} <= set(codes(raised)), raised
    assert raised.status != "passed"
    assert [r.reward for r in EvaluationJobs(lab).rollouts(raised.data["id"])].count(None) == 8
    assert "ZeroDivisionError" in next(row["error"] for row in told["examples"] if "error" in row)

    ran = (await run_once(lab, num_examples=8, rollouts=2)).data["id"]
    path.write_text(original, encoding="utf-8")
    mended = await rescored(lab, ran)
    assert (mended.data["rescored"]["recovered"], mended.data["errors"]) == (8, 0), mended
    assert {r.stop for r in EvaluationJobs(lab).rollouts(mended.data["id"])} == {"agent_completed"}


TOOLS = '''
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Note(vf.State):
    looked: int = 0

class Task(vf.Task[Data, Note]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)

    @vf.metric
    async def calls(self, trace: vf.Trace) -> float:
        return float(sum(len(m.tool_calls or ()) for m in trace.assistant_messages))

class Shelf(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    @vf.tool
    def look_up(self, name: str) -> str:
        """The price of a thing."""
        return f"{name} costs 7." + " Ask the clerk." * 400 + " Shelf 1."

class PricesConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()

class Prices(vf.Taskset[Task, PricesConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Shelf(config.tools)]

    def load(self):
        for n in range(6):
            yield Task(Data(prompt=f"What does thing {n} cost? Look it up.", answer="costs 7"), self.config.task)

if __name__ == "__main__":
    Shelf.run()
'''


def write(lab: Lab, name: str, requirement: str, code: str) -> Path:
    root = lab.settings.workspace / "environments" / name
    (root / name).mkdir(parents=True)
    project = (
        f'[project]\nname = "{name.replace("_", "-")}"\nversion = "0.1.0"\nrequires-python = "{PYTHON}"\n'
        f"dependencies = [{requirement}]\n"
    )
    (root / "pyproject.toml").write_text(project, encoding="utf-8")
    (root / "README.md").write_text("# It\n", encoding="utf-8")
    path = root / name / "__init__.py"
    path.write_text(code, encoding="utf-8")
    return path


def looks_up(body: dict[str, Any], before: int) -> str | dict[str, Any]:
    """Calls the tool, then says what it said; every other rollout says it in capitals."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        text = str(last["content"])
        return text.upper() if before % 2 else text
    return {"name": "look_up", "arguments": json.dumps({"name": "it"})}


async def test_tools_are_part_of_the_rollouts_and_rewards_that_read_state_are_refused(lab: Lab) -> None:
    # Tool servers are started as modules of their own, which a package's __init__ cannot be.
    init = write(lab, "prices", '"verifiers>=0.4.0,<0.5"', 'from prices.shop import Prices\n\n__all__ = ["Prices"]\n')
    code = init.with_name("shop.py")
    code.write_text(TOOLS, encoding="utf-8")
    original = code.read_text(encoding="utf-8")
    with serving(looks_up) as model:
        ran = await evaluate(
            lab, "prices", model="scripted", endpoint=model.url, num_examples=6, rollouts=2, wait_seconds=150
        )
    was = ran.data["id"]
    assert (ran.data["completed"], ran.data["mean_reward"]) == (12, 0.5), ran

    change(code, "in trace.last_reply)", "in trace.last_reply.lower())")
    found = await rescored(lab, was, "prices")
    told = found.data["rescored"]
    assert (told["up"], told["down"], told["unchanged"], found.data["mean_reward"]) == (6, 0, 6, 1.0), found
    assert {r.metrics["calls"] for r in EvaluationJobs(lab).rollouts(found.data["id"])} == {1.0}

    code.write_text(original.replace("costs 7.", "costs 8."), encoding="utf-8")
    other = await rescored(lab, was, "prices")
    assert (other.status, codes(other)) == ("inconclusive", ["rescore-environment-changed"]), other
    assert "costs 8" in other.findings[0].message

    code.write_text(original.replace("The price of a thing.", "What a thing costs: 7."), encoding="utf-8")
    described = await rescored(lab, was, "prices")
    assert (described.status, codes(described)) == ("inconclusive", ["rescore-environment-changed"]), described

    code.write_text(original.replace("Shelf 1.", "Shelf 2."), encoding="utf-8")  # after 6,000 characters
    longer = await rescored(lab, was, "prices")
    assert (longer.status, codes(longer)) == ("inconclusive", ["rescore-environment-changed"]), longer

    code.write_text(original.replace("in trace.last_reply)", "in trace.last_reply and not trace.state.looked)"))
    state = await rescored(lab, was, "prices")
    assert (state.status, codes(state)) == ("inconclusive", ["rescore-needs-state"]), state
    assert "trace.state.looked" in state.findings[0].message


OLDER = """
import verifiers as vf
from datasets import Dataset


def correct(completion, answer, **kwargs):
    return float(completion[-1]["content"] == f"<answer>{answer}</answer>.")


def load_environment(ranked: bool = False) -> vf.Environment:
    rows = Dataset.from_list([{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(8)])
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[correct], weights=[1.0]))
"""
RANKED = """
def longest(completions, **kwargs):
    longest = max(len(c[-1]["content"]) for c in completions)
    return [float(len(c[-1]["content"]) == longest) for c in completions]

"""


async def test_an_older_environment_is_scored_again_alone_and_in_groups(lab: Lab) -> None:
    code = write(lab, "sums_v0", f'"{OLDEST}", "{DATASETS}"', OLDER)
    original = code.read_text(encoding="utf-8")
    with serving(adds) as model:
        ran = await evaluate(
            lab, "sums_v0", model="scripted", endpoint=model.url, num_examples=8, rollouts=4, wait_seconds=280
        )
    was = ran.data["id"]
    assert (ran.data["completed"], ran.data["mean_reward"]) == (32, 0.0), ran

    change(code, "</answer>.", "</answer>")
    found = await rescored(lab, was, "sums_v0")
    told = found.data["rescored"]
    assert (told["up"], told["unchanged"], told["mean_after"], found.data["errors"]) == (16, 16, 0.5, 0), found
    (one, *_) = EvaluationJobs(lab).rollouts(found.data["id"])
    assert one.record["correct"] == one.record["metrics"]["correct"] == one.reward

    code.write_text(
        original.replace("\ndef load", RANKED + "\ndef load").replace(
            "funcs=[correct], weights=[1.0]", "funcs=[correct, longest], weights=[1.0, 0.5]"
        ),
        encoding="utf-8",
    )
    grouped = await rescored(lab, was, "sums_v0")
    assert (grouped.data["rescored"]["up"], grouped.data["errors"]) != (0, 0), grouped
    by_task: dict[str, list[float]] = {}
    for rollout in EvaluationJobs(lab).rollouts(grouped.data["id"]):
        by_task.setdefault(rollout.task, []).append(rollout.reward or 0.0)
    assert all(max(rewards) == 0.5 for rewards in by_task.values())
    assert len(by_task) == 8

    code.write_text(original.replace('completion[-1]["content"] ==', 'completion[9]["content"] =='), encoding="utf-8")
    raises = await rescored(lab, was, "sums_v0")
    assert (raises.data["errors"], raises.data["rescored"]["errors"]) == (32, 32), raises
    assert raises.status != "passed"
