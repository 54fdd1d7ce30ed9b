"""test_reward of rewards that ask a judge: unreachable, honest, gullible, unsteady, unreadable, unpinned."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.settings import NamedEndpoint, Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import test_reward
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.rewards.judges import KEY, Answer, Judge, judging
from tests.lab.rewards.packages import README, SOUND, call, codes, project, try_reward, write
from tests.support.interpreters import share

pytestmark = [pytest.mark.anyio, pytest.mark.rotate(share=3, group="rewards with judges")]

V1 = """
import hashlib, os
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class VerdictJudgeConfig(vf.JudgeConfig):
    {config}

class VerdictJudge(vf.Judge[bool, VerdictJudgeConfig]):
    prompt = "Compare.\\n[question]\\n{{question}}\\n[reference]\\n{{reference}}\\n[answer]\\n{{answer}}\\n[end]"

    def parse(self, response):
        said = response.text.strip()
        if said not in ("CORRECT", "WRONG"):
            raise ValueError(f"no verdict: {{said!r}}")
        return said == "CORRECT"

class TaskConfig(vf.TaskConfig):
    judge: VerdictJudgeConfig = VerdictJudgeConfig()

class Essay(vf.Task[Data, vf.State, TaskConfig]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        reply = trace.last_reply
        if not reply.strip():
            return 0.0
        found = await VerdictJudge(self.config.judge).evaluate(
            trace=trace, question=self.data.prompt_text, reference=self.data.answer, answer=reply)
        return float(found.parsed)

class Config(vf.TasksetConfig):
    task: TaskConfig = TaskConfig()

class Essays(vf.Taskset[Essay, Config]):
    def load(self):
        words = ("river", "bridge", "miller", "barrel", "orchard", "lantern", "harbour", "wagon", "chapel", "meadow")
        for n in range(30):
            first, second = words[n % 10], words[(n // 10 + n + 3) % 10]
            answer = f"The {{first}} was closed on day {{n}}, because the {{second}} had been flooded by the rain."
            yield Essay(Data(prompt=f"Why was the place number {{n}} closed, and for which reason?", answer=answer),
                        self.config.task)

__all__ = ["Essays"]
"""
PINNED = 'model: str = "judge-model-1"\n    sampling: vf.SamplingConfig = vf.SamplingConfig(temperature=0.0)'
V0 = """
import os
import verifiers as vf
from datasets import Dataset
{top}
def load_environment():
    words = ("river", "bridge", "miller", "barrel", "orchard", "lantern", "harbour", "wagon", "chapel", "meadow")
    rows = [
        {{"question": f"Why was the place number {{n}} closed, and for which reason?",
          "answer": f"The {{words[n % 10]}} was closed on day {{n}}, because the {{words[(n // 10 + n + 3) % 10]}} had "
                    "been flooded by the spring rain."}}
        for n in range(30)
    ]
    prompt = "Compare.\\n[question]\\n{{question}}\\n[reference]\\n{{answer}}\\n[answer]\\n{{response}}\\n[end]"
    {rubric}
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""
RUBRIC = """
    rubric = vf.JudgeRubric(judge_model="judge-model-1", judge_sampling_args={"temperature": 0.0}, judge_prompt=prompt)
    async def right(prompt, completion, answer, state, judge) -> float:
        return float(await judge(prompt, completion, answer, state) == "CORRECT")
    rubric.add_reward_func(right)
"""
OWN_CLIENT = """
    from openai import AsyncOpenAI
    async def right(prompt, completion, answer) -> float:
        try:
            client = AsyncOpenAI(max_retries=0)
            text = prompt_of(prompt[-1]["content"], answer, completion[-1]["content"] if completion else "")
            found = await client.chat.completions.create(
                model="judge-model-1", temperature=0.0, messages=[{"role": "user", "content": text}])
            return float(found.choices[0].message.content == "CORRECT")
        except Exception:
            return 0.0
    def prompt_of(question, reference, answer):
        return prompt.format(question=question, answer=reference, response=answer)
    prompt = "Compare.\\n[question]\\n{question}\\n[reference]\\n{answer}\\n[answer]\\n{response}\\n[end]"
    rubric = vf.Rubric(funcs=[right])
"""
NO_KEY = f"assert {KEY!r} not in str(dict(os.environ)), 'the real key reached the environment'"
_PARTS = re.compile(r"\[reference\]\n(.*?)\n\[answer\]\n(.*)\n\[end\]", re.S)


def _same(question: str) -> bool:
    found = _PARTS.search(question)
    assert found is not None, question
    reference, answer = (re.findall(r"\w+", part.lower()) for part in found.groups())
    ours = " ".join(answer)
    return bool(reference) and ours.endswith(" ".join(reference)) and len(set(answer) - set(reference)) < 60


def honest(question: str) -> str:
    return "CORRECT" if _same(question) else "WRONG"


def gullible(question: str) -> str:
    answer = _PARTS.search(question)[2].strip()  # type: ignore[index]
    claims = "correct" in answer.lower() or answer.rstrip(".:") in ("", "Solution", "Thought process")
    return "CORRECT" if claims else honest(question)


class Unsteady:
    """Of every question, the second answer is another one for a third of them."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __call__(self, question: str) -> str:
        again, self.asked = question in self.asked, self.asked | {question}
        turns = again and hashlib.sha256(question.encode()).digest()[0] % 3 == 0
        right = _same(question)
        return "CORRECT" if right != turns else "WRONG"


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With the interpreters that other tests built, and the judge's real key in the server's environment."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state")
    share(settings)
    made = Lab(settings)
    yield made
    await made.close()


def essays(lab: Lab, config: str = PINNED, change: tuple[str, str] = ("", "")) -> None:
    _write(lab, V1.format(config=config).replace(*change), "verifiers>=0.4.0,<0.5")


def old_essays(lab: Lab, rubric: str, top: str = "") -> None:
    code = V0.format(rubric=textwrap.dedent(rubric).strip().replace("\n", "\n    "), top=top)
    _write(lab, code, 'verifiers>=0.1.14,<0.2", "datasets>=3.0,<4.7", "math-verify>=0.9,<0.10')


def _write(lab: Lab, code: str, requirement: str) -> None:
    folder = lab.workspace.environments / "essays"
    folder.mkdir(parents=True)
    (folder / "essays.py").write_text(code, encoding="utf-8")
    (folder / "pyproject.toml").write_text(project("essays", requirement), encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")


def named(lab: Lab, judge: Judge) -> str:
    """The name that a person gave to the judge's endpoint and its key."""
    endpoint = NamedEndpoint("loopback", judge.url, "LOOPBACK_KEY")
    lab.settings = dataclasses.replace(lab.settings, endpoints=(endpoint,))
    return endpoint.name


async def asked(lab: Lab, answer: Answer, **given: Any) -> tuple[Outcome, Judge]:
    with judging(answer) as judge:
        return await try_reward(lab, "essays", judge=named(lab, judge), **given), judge


async def test_without_an_endpoint_nothing_is_said_of_a_judged_reward(lab: Lab) -> None:
    essays(lab)
    outcome = await try_reward(lab, "essays")
    assert (outcome.status, codes(outcome)) == ("inconclusive", {"reward-judge-unreachable"})
    assert outcome.next[0].arguments == {"environment": "environments/essays", "judge": "prime"}


@pytest.mark.slow
async def test_an_honest_judge_passes_and_the_real_key_stays_with_the_relay(lab: Lab) -> None:
    essays(lab, change=("return float(found.parsed)", f"{NO_KEY}\n        return float(found.parsed)"))
    outcome, judge = await asked(lab, honest)
    assert (outcome.status, [f.code for f in outcome.findings if f.severity != "info"]) == (
        "passed",
        ["reward-reads-surroundings"],  # the reward looks for a key in its variables, to show that there is none
    )
    assert judge.keys == {f"Bearer {KEY}"}
    assert len(judge.asked) == outcome.data["judge"]["requests"] < 400
    assert outcome.data["judge"]["models"] == [
        {"model": '"judge-model-1"', "temperature": 0.0, "host": f'"{judge.host}"'}
    ]
    assert outcome.facts.endpoint_host == judge.host
    assert outcome.data["judge"]["named_by"] == "person"
    assert outcome.facts.unreported == {"judge_named_by": "person"}


@pytest.mark.slow
async def test_a_judge_that_believes_claims_is_hackable(lab: Lab) -> None:
    essays(lab)
    outcome, _ = await asked(lab, gullible)
    assert (outcome.status, codes(outcome)) == ("failed", {"reward-hackable"})
    assert any("only claim to be right" in f.message for f in outcome.findings)


@pytest.mark.slow
async def test_a_judge_that_changes_its_mind_is_unsteady_and_not_nondeterministic(lab: Lab) -> None:
    essays(lab)
    outcome, _ = await asked(lab, Unsteady())
    assert "reward-judge-unsteady" in codes(outcome)
    assert "reward-nondeterministic" not in codes(outcome)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "code"), [("Well, it depends.", "reward-judge-unread"), (None, "reward-judge-unreachable")]
)
async def test_a_judge_that_gives_no_verdict_leaves_the_report_undecided(lab: Lab, said: str | None, code: str) -> None:
    essays(lab)
    outcome, _ = await asked(lab, lambda question: said)
    assert (outcome.status, codes(outcome)) == ("inconclusive", {code})


@pytest.mark.slow
async def test_a_judge_that_calls_everything_wrong_is_inaccurate(lab: Lab) -> None:
    essays(lab)
    outcome, _ = await asked(lab, lambda question: "WRONG")
    assert outcome.status == "failed"
    assert codes(outcome) & {"reward-judge-inaccurate", "reward-constant", "reward-gold-fails"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("pass", "names no model"),
        ('model: str = "judge-model-1"', "no temperature"),
        (PINNED.replace("0.0", "0.7"), "temperature is 0.7"),
    ],
)
async def test_a_judge_without_a_fixed_model_and_temperature_warns(lab: Lab, config: str, said: str) -> None:
    essays(lab, config)
    outcome, _ = await asked(lab, honest, examples=2, probes=False)
    (found,) = [f for f in outcome.findings if f.severity == "warning"]
    assert found.code == "reward-judge-unpinned"
    assert said in found.message


@pytest.mark.slow
async def test_a_judge_rubric_is_loaded_and_asked_through_the_relay(lab: Lab) -> None:
    old_essays(lab, RUBRIC, top=NO_KEY)
    outcome, judge = await asked(lab, honest)
    assert (outcome.status, [f.code for f in outcome.findings if f.severity != "info"]) == ("passed", [])
    assert judge.keys == {f"Bearer {KEY}"}
    again, _ = await asked(lab, gullible)
    assert "reward-hackable" in codes(again)


@pytest.mark.slow
async def test_a_reward_that_hides_its_unreachable_judge_is_undecided_and_not_constant(lab: Lab) -> None:
    old_essays(lab, OWN_CLIENT)
    outcome = await try_reward(lab, "essays")
    assert (outcome.status, codes(outcome)) == ("inconclusive", {"reward-judge-unreachable"})
    outcome, _ = await asked(lab, honest)
    assert (outcome.status, codes(outcome)) == ("passed", set())


@pytest.mark.slow
async def test_the_cap_ends_a_trial_undecided(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prime_lab_mcp.lab.rewards.judge_relay.MOST_REQUESTS", 20)
    essays(lab)
    outcome, judge = await asked(lab, honest)
    assert (outcome.status, codes(outcome)) == ("inconclusive", {"reward-judge-unreachable"})
    assert "the cap of this call refused" in outcome.findings[0].message
    assert len(judge.asked) == 20


@pytest.mark.parametrize(("dollars", "asks"), [(0.1, False), (40.0, True)])
@pytest.mark.slow
async def test_a_judge_with_a_price_is_asked_about_from_a_dollar_on(lab: Lab, dollars: float, asks: bool) -> None:
    essays(lab)
    price = {"input_usd_per_mtok": dollars, "output_usd_per_mtok": dollars}
    with judging(honest, price) as judge:
        args = test_reward.Args(environment="essays", judge=named(lab, judge))
        intent = (await test_reward.plan(await call(lab, "essays"), args)).intent
        assert judge.asked == []
        await try_reward(lab, "essays", judge=args.judge, examples=1, probes=False)
    assert (intent is not None) == asks
    assert intent is None or (KEY not in str(intent) and intent.ask)
    spent = lab.ledger.spent(lab.platform)
    assert spent == pytest.approx(dollars * 103 * len(judge.asked) / 1e6)


@pytest.mark.parametrize("cap", [None, 5.0])
async def test_a_judge_with_a_key_and_no_price_is_asked_about_also_where_none_is_declared(
    lab: Lab, cap: float | None
) -> None:
    write(lab, "sound", SOUND)
    with judging(honest) as judge:
        args = test_reward.Args(environment="environments/sound", judge=named(lab, judge), search=0)
        lab.settings = dataclasses.replace(lab.settings, max_spend=cap)
        made = await call(lab, "sound")
        plan = await test_reward.plan(made, args)
        assert plan.intent is not None
        assert plan.intent.ask
        assert "lists no price for the judge; it ends at" in plan.intent.question
        assert [f.code for f in plan.intent.findings] == ([] if cap is None else ["price-unknown"])
        with pytest.raises(EvalError, match="nobody was asked") as refused:
            await test_reward.run(made, dataclasses.replace(plan, intent=None))
    assert refused.value.code == "intent-changed"
    assert judge.asked == []


@pytest.mark.slow
async def test_an_environment_that_loads_with_a_key_only_is_checked_and_then_asks_through_the_relay(lab: Lab) -> None:
    old_essays(lab, RUBRIC)
    calls = Calls(lab, TOOLS, References())
    checked = await calls.execute("check_environment", {"environment": "essays"})
    assert checked.status == "passed"
    assert [f.code for f in checked.findings].count("judge-needs-key") == 1
    alone = await calls.execute("test_reward", {"environment": "essays"})
    blockers = {f.code for f in alone.findings if f.severity == "blocker"}
    assert (alone.status, blockers) == ("inconclusive", {"reward-judge-unreachable"})
    with judging(honest, {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.1}) as judge:
        given = {"environment": "essays", "judge": named(lab, judge)}
        tested = await calls.execute("test_reward", given)
    assert tested.status == "passed"
    (evidence,) = [row for row in lab.ledger.evidence(lab.key) if (row.tool, row.status) == ("test_reward", "passed")]
    assert (evidence.endpoint_host, evidence.sampling["judge"]) == (judge.host, "judge-model-1")
    assert KEY not in str(lab.ledger.evidence(lab.key))


@pytest.mark.slow
async def test_a_judge_that_the_config_plugs_is_asked_through_the_relay(lab: Lab) -> None:
    plugged = """class TaskConfig(vf.TaskConfig):
    judges: list[vf.JudgeConfig] = [ReferenceJudgeConfig(model="judge-model-1", sampling={"temperature": 0.0})]

class Essay(vf.Task[Data, vf.State, TaskConfig]):
    pass

class Config"""
    start, rest = V1.format(config=PINNED).split("class TaskConfig", 1)
    code = start + plugged + rest.split("class Config", 1)[1]
    code = "from verifiers.v1.judges.reference import ReferenceJudgeConfig\n" + code
    _write(lab, code, "verifiers>=0.4.0,<0.5")
    alone = await try_reward(lab, "essays")
    assert (alone.status, codes(alone)) == ("inconclusive", {"reward-judge-unreachable"})

    def says(question: str) -> str:
        reference, answer = re.search(r"answer:\n```\n(.*?)\n```.*Response:\n```\n(.*)\n```", question, re.S).groups()  # type: ignore[union-attr]
        return "yes" if _same(f"[reference]\n{reference}\n[answer]\n{answer}\n[end]") else "no"

    outcome, judge = await asked(lab, says)
    assert (outcome.status, codes(outcome)) == ("passed", set())
    assert outcome.data["judge"]["models"][0]["host"] == f'"{judge.host}"'
