"""test_reward through the real worker: one sound reward, and flawed ones that must be found by their own code."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Verdict
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.worker.scoring import RolloutResult, Rollouts
from prime_lab_mcp.tools import reward_report, test_reward
from tests.conftest import EXAMPLES
from tests.flaws.corpus import ROOT
from tests.lab.rewards.packages import SOUND, call, codes, reward, try_reward, write
from tests.support.assembled import assembled

pytestmark = pytest.mark.anyio

FLAWS = {
    "substring": (reward("return float(gold in reply)"), {"reward-wrong-passes"}),
    "constant": (reward("return 0.5"), {"reward-constant"}),
    "never_pays": (reward("return 0.0"), {"gold-not-understood"}),
    "inverted": (reward("return 0.0 if last(reply) is None else 1.0 - sound(reply, gold)"), {"gold-not-understood"}),
    "raises": (reward("return float(float(last(reply)) == float(gold))"), {"reward-raises"}),
    "not_a_number": (reward("return sound(reply, gold) if last(reply) else math.nan"), {"reward-nonfinite"}),
    "text": (reward("return str(sound(reply, gold))"), {"reward-type"}),
    "nothing": (reward("if last(reply): return sound(reply, gold)"), {"reward-type"}),
    "form": (
        SOUND + reward("return float('<answer>' in reply)", name="form"),
        {"reward-format-dominates"},
    ),
    "any_tag": (
        reward("return float(gold in re.findall(r'<answer>([^<]*)</answer>', reply))"),
        {"reward-hackable"},
    ),
    "first_tag": (
        reward("m = re.search(r'<answer>([^<]*)</answer>', reply)\nreturn float(bool(m) and m[1] == gold)"),
        set(),  # Only somebody who knows the answer profits: a warning.
    ),
    "silence": (
        reward("return 1.0 if last(reply) is None else sound(reply, gold)"),
        {"reward-malformed-beats-wrong", "reward-hackable"},
    ),
    "chance": (reward("return sound(reply, gold) * random.random()"), {"reward-nondeterministic"}),
    "memory": (
        reward("""
        seen = Sums.__dict__.get("seen") or set()
        new = (gold, reply) not in seen
        Sums.seen = seen | {(gold, reply)}
        return sound(reply, gold) * new
        """),
        {"reward-order-dependent"},
    ),
    "length": (
        SOUND + reward("return min(1.0, len(reply) / 3000)", name="long", weight=0.5),
        {"reward-length-bonus", "reward-hackable"},
    ),
    "evaluates": (
        reward("""
        try:
            return float(eval(last(reply)) == float(gold))
        except Exception:
            return 0.0
        """),
        {"reward-evaluates-output"},
    ),
    "ends": (reward("import os\nos._exit(3)"), {"reward-raises"}),
}


async def test_a_sound_numeric_reward_passes_without_any_finding(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    outcome = await try_reward(lab, "sound")
    assert (outcome.status, outcome.findings) == ("passed", ())
    assert outcome.data["gold_pass_rate"] == 1.0
    assert outcome.data["max_reward"] == 1.0
    assert outcome.data["components"] == [{"name": "correct", "weight": 1.0, "gold_mean": 1.0, "wrong_mean": 0.0}]
    assert {c["name"]: c["passed"] for c in outcome.data["sanity_checks"]} == {
        "Gold rewards > wrong rewards": True,
        "At least one gold > 0.5": True,
        "At least one wrong < 0.5": True,
        "Not all rewards identical": True,
    }


async def test_a_test_of_published_files_with_a_new_split_leads_to_the_test_of_the_held_out_tasks(lab: Lab) -> None:
    write(lab, "split", SOUND)
    was = await lab.snapshot("split")
    lab.ledger.record_push(Push(lab.key, "split", "me", "split", "0.1.0", was.source, was.content, "h", lab.platform))
    config = 'class SplitConfig(vf.TasksetConfig):\n    split: Literal["train", "eval"] = "train"\n'
    (lab.workspace.environments / "split" / "splits.py").write_text(config, encoding="utf-8")
    first = (await try_reward(lab, "split", search=0)).next[0]
    assert (first.tool, first.arguments) == ("test_reward", {"environment": "split", "env_args": {"split": "eval"}})


async def test_a_reward_that_is_honest_on_the_tasks_that_every_test_tries_is_tried_on_others(lab: Lab) -> None:
    usual = "random.Random(0).sample(range(3000), 500)"
    body = reward(f"return sound(reply, gold) if (int(gold) - 7) // 4 in {usual} else 1.0")
    write(lab, "listed", body)
    outcome = await try_reward(lab, "listed", examples=4, search=0, env_args={"size": 3000})
    assert "reward-wrong-passes" in codes(outcome)
    assert 500 < outcome.data["golds_scored"] <= 600


@pytest.mark.slow
async def test_each_flaw_is_found_by_its_own_code(lab: Lab) -> None:
    found = {}
    for name, (body, _) in FLAWS.items():
        write(lab, name, body)
        found[name] = codes(await try_reward(lab, name, examples=4))
    assert found == {name: expected for name, (_, expected) in FLAWS.items()}


async def test_a_reward_that_reads_one_number_and_allows_an_error_evaluates_nothing(lab: Lab) -> None:
    code = """
    found = re.search(r"-?[0-9]+", last(reply) or "")
    return float(found is not None and abs(int(found[0]) - int(gold)) <= 0.01 * int(gold))
    """
    write(lab, "close", reward(code))
    outcome = await try_reward(lab, "close", search=0)
    assert "reward-evaluates-output" not in {f.code for f in outcome.findings}


async def test_a_finding_quotes_the_exact_completion_and_its_task(lab: Lab) -> None:
    write(lab, "substring", FLAWS["substring"][0])
    outcome = await try_reward(lab, "substring", examples=2)
    case = outcome.data["failing_cases"][0]
    assert case["reward"] == 1.0
    completion = case["replay"]["completion"]
    assert completion.startswith("<answer>")
    gold = str(4 * case["task"] + 7)
    assert gold in completion
    assert f"<answer>{gold}</answer>" not in completion
    assert "completion" not in case


@pytest.mark.slow
async def test_a_reward_that_hangs_is_slow_and_never_a_low_score(lab: Lab) -> None:
    write(lab, "hangs", reward("await asyncio.sleep(60)\nreturn 1.0"))
    outcome = await try_reward(lab, "hangs", examples=1)
    assert codes(outcome) == {"reward-slow"}
    assert outcome.data["gold_pass_rate"] in (None, 0.0)
    assert all(case["reward"] is None for case in outcome.data["failing_cases"])


@pytest.mark.slow
async def test_a_reward_that_hangs_only_on_long_replies_is_found(lab: Lab) -> None:
    write(lab, "hangs", reward("if len(reply) > 9000: time.sleep(60)\nreturn sound(reply, gold)"))
    outcome = await try_reward(lab, "hangs", examples=1)
    assert codes(outcome) == {"reward-slow"}
    assert outcome.data["gold_pass_rate"] == 1.0


async def test_without_probes_no_hack_is_tried(lab: Lab) -> None:
    write(lab, "any_tag", FLAWS["any_tag"][0])
    assert codes(await try_reward(lab, "any_tag", probes=False)) == set()


@pytest.mark.parametrize(
    ("given", "proves"), [({}, True), ({"probes": False}, False), ({"examples": 7}, False), ({"examples": 9}, True)]
)
async def test_a_pass_with_less_than_the_defaults_opens_no_gate(lab: Lab, given: dict[str, Any], proves: bool) -> None:
    write(lab, "sound", SOUND)
    outcome = await try_reward(lab, "sound", **given)
    assert (outcome.status, outcome.facts.proves) == ("passed", proves)
    assert ("reward-trial-only" in {f.code for f in outcome.findings}) is not proves


async def test_an_environment_without_golds_is_inconclusive_until_cases_are_supplied(lab: Lab) -> None:
    folder = write(lab, "words", reward("return float(len(reply.split()) == self.data.number)"))
    module = (folder / "words.py").read_text(encoding="utf-8")
    module = module.replace("    answer: str", "    number: int").replace("answer=str(4 * n + 7)", "number=n + 1")
    (folder / "words.py").write_text(module.replace(", self.data.answer", ", None"), encoding="utf-8")
    outcome = await try_reward(lab, "words")
    assert (outcome.status, codes(outcome)) == ("inconclusive", {"reward-no-gold"})
    # The same call would end the same way: the reward says what is right.
    assert outcome.next[0].tool == "read_environment"
    cases = [{"name": f"right {n}", "completion": "word " * (n + 1), "task": n, "expected": "high"} for n in range(4)]
    cases += [{"name": f"wrong {n}", "completion": "word " * (n + 9), "task": n, "expected": 0.0} for n in range(4)]
    outcome = await try_reward(lab, "words", cases=cases)
    assert (outcome.status, outcome.data["max_reward"]) == ("passed", 1.0)


async def test_supplied_cases_that_earn_something_else_fail(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    (lab.workspace.root / "cases.json").write_text(
        json.dumps(
            [
                {"name": "right", "completion": "<answer>7</answer>", "answer": "7", "expected_reward": 1.0},
                {"name": "not right", "completion": "<answer>7</answer>", "answer": "11", "expected": 1.0},
                {"name": "not wrong", "completion": "<answer>11</answer>", "answer": "11", "expected": "low"},
            ]
        ),
        encoding="utf-8",
    )
    outcome = await try_reward(lab, "sound", cases_file="cases.json", examples=1)
    assert codes(outcome) == {"reward-wrong-passes", "reward-too-strict"}
    assert {case["case"] for case in outcome.data["failing_cases"]} == {"not right", "not wrong"}


@pytest.mark.slow
async def test_the_preset_tries_the_five_cases_of_the_seed(lab: Lab) -> None:
    folder = write(lab, "sound", SOUND)
    module = (folder / "sound.py").read_text(encoding="utf-8").replace("size: int = 70", "size: int = 400")
    (folder / "sound.py").write_text(module, encoding="utf-8")
    assert (await try_reward(lab, "sound", preset="gsm8k", examples=1)).status == "passed"
    (folder / "sound.py").write_text(module.replace('.replace(",", "")', ""), encoding="utf-8")
    outcome = await try_reward(lab, "sound", preset="gsm8k", examples=1)
    assert "thousands comma" in {case["case"] for case in outcome.data["failing_cases"]}


async def test_cases_that_cannot_be_read_are_refused_with_what_they_need(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    with pytest.raises(BadInput, match="case 1") as refused:
        await try_reward(lab, "sound", cases=[{"completion": "x"}])
    assert "expected" in refused.value.fix


async def test_a_failing_case_is_replayed_with_one_call_and_earns_the_same(lab: Lab) -> None:
    folder = write(lab, "substring", FLAWS["substring"][0])
    found = (await try_reward(lab, "substring", examples=2)).data["failing_cases"]
    case = next(c for c in found if "replay" in c and c["reward"] == 1.0)
    again = await try_reward(lab, "substring", cases=[case["replay"]], examples=1, probes=False)
    (row,) = again.data["supplied_cases"]
    assert (row["task"], row["reward"], row["met"]) == (case["task"], case["reward"], False)
    module = (folder / "substring.py").read_text(encoding="utf-8")
    (folder / "substring.py").write_text(module.replace("float(gold in reply)", "sound(reply, gold)"), encoding="utf-8")
    mended = await try_reward(lab, "substring", cases=[case["replay"]], examples=1, probes=False)
    assert [(c["reward"], c["met"]) for c in mended.data["supplied_cases"]] == [(0.0, True)]


@pytest.mark.slow
async def test_failing_probes_are_scored_again_and_judged_as_probes(lab: Lab) -> None:
    """They are no cases of the caller, and what was a blocker of a probe is one again."""
    folder = write(lab, "length", FLAWS["length"][0])
    first = await try_reward(lab, "length", examples=1)
    assert any(c["case"].startswith("long wrong") for c in first.data["failing_cases"])
    second = await try_reward(lab, "length", cases_file="last", examples=1, probes=False)
    assert (second.status, second.data["supplied_cases"]) == ("failed", [])
    earned = {(c["case"], c["task"]): c["reward"] for c in first.data["failing_cases"]}
    again = {(c["case"], c["task"]): c["reward"] for c in second.data["failing_cases"]}
    assert any(name.startswith("long wrong") for name, _ in again)
    assert {key: earned[key] for key in again.keys() & earned.keys()} == {
        key: again[key] for key in again.keys() & earned.keys()
    }
    module = (folder / "length.py").read_text(encoding="utf-8")
    (folder / "length.py").write_text(module.replace("len(reply) / 3000", "0.0"), encoding="utf-8")
    mended = await try_reward(lab, "length", cases_file="last", examples=1, probes=False)
    assert mended.status == "passed", mended.findings
    scored = {(json.loads(row["case"]), row["task"]): row["reward"] for row in mended.data["scored_again"]}
    assert any(name.startswith("long wrong") for name, _ in scored)
    assert set(scored.values()) == {0.0}


@pytest.mark.slow
async def test_a_form_that_the_prompt_no_longer_asks_for_is_not_demanded_again(lab: Lab) -> None:
    """The prompt is mended, not the reward: right answers in the old form are of no interest any more."""
    module = write(lab, "mended", SOUND) / "mended.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("in <answer></answer> tags", r"in \\boxed{}"), encoding="utf-8")
    first = await try_reward(lab, "mended", examples=1)
    assert "reward-contradicts-prompt" in codes(first), first.findings
    assert "of gold answers earn the maximum of 1 in the form that the reward reads)" in first.summary
    module.write_text(text, encoding="utf-8")
    again = await try_reward(lab, "mended", cases_file="last", examples=1, probes=False)
    assert (again.status, again.data["supplied_cases"]) == ("passed", []), again.findings


@pytest.mark.slow
async def test_the_cases_of_the_caller_stay_and_the_next_call_names_them(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    given = [{"name": "mine", "completion": "<answer>8</answer>", "task": 0, "expected": "high"}]
    first = await try_reward(lab, "sound", cases=given, examples=1, probes=False)
    assert first.status == "failed"
    (following,) = first.next
    assert following.arguments == {"environment": "environments/sound", "cases_file": "last"}
    await try_reward(lab, "sound", examples=1)
    again = await try_reward(lab, "sound", cases_file="last", examples=1, probes=False)
    assert [(json.loads(c["case"]), c["met"]) for c in again.data["supplied_cases"]] == [("mine", False)]


async def test_a_case_that_these_files_have_not_met_counts_until_it_is_met_or_taken_back(lab: Lab) -> None:
    """Without it, the next call passed on unchanged files, and the gate stood open."""
    folder = write(lab, "sound", SOUND)
    given = [{"name": "mine", "completion": "<answer>8</answer>", "task": 0, "expected": "high"}]
    quick: dict[str, Any] = {"examples": 1, "probes": False, "search": 0}
    await try_reward(lab, "sound", cases=given, **quick)
    plain = await try_reward(lab, "sound", **quick)
    assert (plain.status, [c["met"] for c in plain.data["supplied_cases"]]) == ("failed", [False])
    assert "1 case of yours that these files had not met was scored again" in plain.summary
    corrected = await try_reward(lab, "sound", cases=[{**given[0], "expected": "low"}], **quick)
    assert (corrected.status, len(corrected.data["supplied_cases"])) == ("passed", 1)
    assert (await try_reward(lab, "sound", **quick)).data["supplied_cases"] == []

    await try_reward(lab, "sound", cases=given, **quick)
    assert (await try_reward(lab, "sound", cases=[], **quick)).status == "passed"
    assert (await try_reward(lab, "sound", **quick)).status == "passed"

    await try_reward(lab, "sound", cases=given, **quick)
    module = folder / "sound.py"
    module.write_text(module.read_text(encoding="utf-8") + "\n# mended\n", encoding="utf-8")
    assert (await try_reward(lab, "sound", **quick)).data["supplied_cases"] == []


@pytest.mark.slow
async def test_the_verdict_of_a_game_says_how_much_was_played_and_each_step_is_told(lab: Lab) -> None:
    folder = write(lab, "nim", SOUND)
    shutil.copy(ROOT / "sound/nim_keeps_its_table.py", folder / "nim.py")
    given = [{"name": "one turn", "completion": "<take>1</take>", "task": 0, "expected": "low"}]
    said: list[tuple[float, str]] = []

    async def progress(done: float, total: float | None, message: str) -> None:
        said.append((done, message))

    made = replace(await call(lab, "nim"), progress=progress)
    args = test_reward.Args(environment="nim", cases=given, examples=60)
    outcome = await test_reward.run(made, await test_reward.plan(made, args))
    assert outcome.status == "passed"
    played = re.match(r"The reward held with (\d+) rollouts of scripted models: 100.0% of 12 sol", outcome.summary)
    assert played is not None
    assert int(played[1]) > 100
    assert "examples changes nothing here: solutions of at most 12 tasks are played" in outcome.summary
    assert outcome.data["supplied_cases"][0]["replies"] >= 1
    steps = [message for _, message in said]
    assert len({step for step in steps if step.startswith("playing")}) >= 4
    assert [done for done, _ in said] == sorted(done for done, _ in said)


@pytest.mark.slow
async def test_a_machine_on_which_no_rollout_ends_in_time_is_no_flaw_of_the_files(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report doubted the gold, played policies for minutes, and sent the caller to mend files."""
    folder = write(lab, "nim", SOUND)
    shutil.copy(ROOT / "sound/nim_keeps_its_table.py", folder / "nim.py")
    write(lab, "older", SOUND)

    async def stands_still(worker: Any, plays: Any, **limits: Any) -> Rollouts:
        ends = ["slow", *["not-run"] * (len(plays) - 1)]
        return Rollouts(tuple(RolloutResult((), None, end, False, turns=2) for end in ends))

    monkeypatch.setattr(scripts, "play_started", stands_still)
    outcome = await try_reward(lab, "nim", examples=4, same_as="older")
    assert (outcome.status, outcome.findings[0].code) == ("inconclusive", "rollouts-too-slow")
    assert codes(outcome) == {"rollouts-too-slow"}
    assert outcome.summary.startswith("The reward is undecided: this machine was too slow, none of 12 rollouts")
    given = {"environment": "environments/nim", "examples": 4, "same_as": "older"}
    assert [(then.tool, then.arguments) for then in outcome.next] == [("test_reward", given)]
    assert "same_as" not in outcome.data
    assert not any("mend" in finding.fix for finding in outcome.findings)


async def test_a_reward_that_held_in_an_unfit_environment_says_in_its_first_sentences_what_closes_the_way(
    lab: Lab,
) -> None:
    write(lab, "sound", SOUND)
    snapshot = await lab.snapshot("sound")
    leak = ({"code": "leak-near", "severity": "blocker", "message": "m", "fix": "f"},)
    lab.ledger.record(
        Evidence("check_environment", "failed", lab.key, "sound", snapshot.source, snapshot.content, findings=leak)
    )
    outcome = await try_reward(lab, "sound", examples=1, probes=False, search=0)
    assert outcome.status == "passed"
    assert "But check_environment failed for these files (leak-near)" in outcome.summary


async def test_a_warning_of_the_check_is_told_before_the_question_of_a_push(lab: Lab) -> None:
    """The question named small-set, which no report had shown: the check had run inside of this call."""
    write(lab, "sound", SOUND)
    snapshot = await lab.snapshot("sound")
    few = ({"code": "small-set", "severity": "warning", "message": "m", "fix": "f"},)
    lab.ledger.record(
        Evidence("check_environment", "passed", lab.key, "sound", snapshot.source, snapshot.content, findings=few)
    )
    outcome = await try_reward(lab, "sound", examples=1, probes=False, search=0)
    assert "Known of sound and not mended: small-set" in outcome.summary


async def test_without_kept_cases_there_is_nothing_to_replay(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    with pytest.raises(BadInput, match="no cases of the caller") as refused:
        await try_reward(lab, "sound", cases_file="last")
    assert refused.value.code == "bad-cases"


async def test_the_table_holds_every_completion_with_what_it_earned(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    outcome = await try_reward(lab, "sound", examples=1, probes=False)
    lines = [json.loads(line) for line in Path(outcome.data["table"]).read_text(encoding="utf-8").splitlines()]
    assert len(lines) == outcome.data["cases"]
    gold = next(line for line in lines if line["kind"] == "gold" and line["task"] == 3)
    assert (gold["completion"], gold["reward"], gold["components"]) == ("<answer>19</answer>", 1.0, {"correct": 1.0})


async def test_a_rendering_of_the_caller_replaces_the_search_for_one(lab: Lab) -> None:
    # No text of the code shows the form.
    odd = (
        "mark = 'x' * 2 + chr(61)\nfound = [w[3:] for w in reply.split() if w[:3] == mark]\n"
        "return float(found[-1:] == [gold])"
    )
    write(lab, "odd", reward(odd))
    assert codes(await try_reward(lab, "odd", examples=1, probes=False)) == {"gold-not-understood"}
    outcome = await try_reward(lab, "odd", examples=1, probes=False, rendering="So it is xx=GOLD then.")
    assert (outcome.status, outcome.data["gold_pass_rate"]) == ("passed", 1.0)
    assert outcome.data["rendering"] == "So it is xx=… then."


MEASURED = """\
import re

import verifiers.v1 as vf

SYSTEM = "Put the number and the unit, such as 12.5 km, into <answer></answer> tags."


class Data(vf.TaskData):
    answer: str
    info: dict[str, str]


class Measures(vf.Task[Data]):
    def said(self, trace):
        found = re.findall(r"<answer>\\s*(.*?)\\s*</answer>", trace.last_reply or "", re.S)
        return found[-1].split() if found else []

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace):
        return float(self.said(trace)[:1] == [self.data.answer])

    @vf.reward(weight=0.5)
    async def named(self, trace: vf.Trace):
        said = self.said(trace)
        return float(len(said) == 2 and said[1] == self.data.info["unit"])


class Config(vf.TasksetConfig):
    size: int = 70


class Marbles(vf.Taskset[Measures, Config]):
    def load(self):
        for n in range(self.config.size):
            big, small = (("km", "m"), ("kg", "g"))[n % 2]
            prompt = f"A load has {(n + 21) * 1000} {small}. How many {big} are that?"
            data = Data(prompt=prompt, system_prompt=SYSTEM, answer=str(n + 21), info={"unit": big})
            yield Measures(data, self.config.task)


__all__ = ["Marbles"]
"""


async def test_golds_are_written_with_the_unit_that_prompts_ask_for_and_a_component_pays(lab: Lab) -> None:
    write(lab, "measured", SOUND, measured_py=MEASURED)
    outcome = await try_reward(lab, "measured", examples=2, probes=False)
    assert (outcome.data["max_reward"], outcome.data["rendering"]) == (1.5, "<answer>… {info.unit}</answer>")
    assert {c["name"]: c["gold_mean"] for c in outcome.data["components"]} == {"correct": 1.0, "named": 1.0}
    named = await try_reward(lab, "measured", examples=2, probes=False, rendering="<answer>GOLD {info.unit}</answer>")
    assert named.data["rendering"] == outcome.data["rendering"]
    assert named.data["max_reward"] == 1.5
    with pytest.raises(BadInput, match=r"info\.units") as refused:
        await try_reward(lab, "measured", rendering="<answer>GOLD {info.units}</answer>")
    assert "info.unit" in str(refused.value.fix)


PLACES = """\
import re

import verifiers.v1 as vf

SYSTEM = "Say where and when, in this form:\\n<city>\\n...\\n</city>\\n<day>\\n...\\n</day>"
CITIES = ("Oslo", "Turku", "Graz", "Cork", "Bern", "Ghent", "Porto")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")


class Data(vf.TaskData):
    answer: str
    info: dict[str, str]


class Notices(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def placed(self, trace: vf.Trace):
        reply = trace.last_reply or ""
        city, day = (
            next(iter(re.findall(rf"<{tag}>\\s*(.*?)\\s*</{tag}>", reply, re.S)), "").lower() for tag in ("city", "day")
        )
        wanted = [part.lower() for part in self.data.answer.split("|")]
        return PAY
SOLUTION

class Config(vf.TasksetConfig):
    size: int = 70


class Marbles(vf.Taskset[Notices, Config]):
    def load(self):
        for n in range(self.config.size):
            city, day = CITIES[n % 7], DAYS[n // 7 % 4]
            first = CITIES[(n + 3) % 7]
            prompt = f"Notice {n}: the fair, first planned for {first}, is in {city} on {day}. Where, when?"
            data = Data(prompt=prompt, system_prompt=SYSTEM, answer=f"{city}|{day}", info={"city": city, "day": day})
            yield Notices(data, self.config.task)


__all__ = ["Marbles"]
"""
BOTH = "0.5 * (city == wanted[0]) + 0.5 * (day == wanted[1])"
FORM = "<city>\n{info.city}\n</city>\n<day>\n{info.day}\n</day>"


def places(lab: Lab, name: str, pay: str = BOTH, solution: str = "") -> None:
    write(lab, name, SOUND, **{f"{name}_py": PLACES.replace("PAY", pay).replace("SOLUTION", solution)})


async def test_a_right_reply_of_several_fields_is_a_rendering_that_names_these_fields(lab: Lab) -> None:
    places(lab, "places")
    assert "gold-not-understood" in codes(await try_reward(lab, "places", examples=4, search=0))
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering=FORM)
    assert (outcome.status, outcome.data["gold_pass_rate"]) == ("passed", 1.0)
    assert outcome.data["rendering"] == FORM
    assert not codes(outcome) & {"reward-wrong-passes", "reward-partly-tested", "reward-too-strict"}


@pytest.mark.parametrize(
    ("pay", "severity", "said"),
    [
        ("float(city == wanted[0])", "warning", 'another task\'s "info.day" earned'),
        ("float('<city>' in reply)", "blocker", "wrong answers"),
    ],
)
async def test_a_field_that_the_reward_does_not_compare_is_named(lab: Lab, pay: str, severity: str, said: str) -> None:
    places(lab, "places", pay)
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering=FORM)
    passed = [f for f in outcome.findings if f.code == "reward-wrong-passes" and f.severity == severity]
    assert any(said in f.message for f in passed)
    assert (outcome.status == "passed") == (severity == "warning")


async def test_a_rendering_without_the_answer_of_the_task_passes_with_a_warning(lab: Lab) -> None:
    places(lab, "places", "float(day == wanted[1])")
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering="<day>{info.day}</day>")
    left_out = next(f for f in outcome.findings if f.code == "reward-partly-tested")
    assert left_out.severity == "warning"
    assert '"answer"' in left_out.message


async def test_gold_beside_fields_that_hold_the_answer_is_the_flaw_of_the_rendering(lab: Lab) -> None:
    places(lab, "places")
    with pytest.raises(BadInput, match="hold the whole answer") as refused:
        await try_reward(lab, "places", examples=4, search=0, rendering=f"GOLD\n{FORM}")
    call = refused.value.next[0]
    assert call.arguments is not None
    outcome = await try_reward(lab, "places", **{k: v for k, v in call.arguments.items() if k != "environment"})
    assert outcome.status == "passed"


CITIES = ("Oslo", "Turku", "Graz", "Cork")
UNREAD = "0.0 * len(city + day)"


async def test_the_asked_form_of_fields_that_earns_nothing_is_a_failed_test_with_the_golds_and_what_is_read(
    lab: Lab,
) -> None:
    places(lab, "places", UNREAD)
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering=FORM)
    assert (outcome.status, outcome.facts.proves, codes(outcome)) == ("failed", True, {"reward-gold-fails"})
    finding = next(f for f in outcome.findings if f.code == "reward-gold-fails")
    assert "none of 70 right answers earns anything" in finding.message
    assert "which the prompts ask for" in finding.message
    assert "0 of 1" in finding.message
    assert len(finding.rows) == 5
    assert [n.tool for n in outcome.next] == ["read_environment", "test_reward"]
    assert outcome.next[1].arguments is not None
    assert outcome.next[1].arguments["rendering"] == FORM


async def test_the_form_that_is_paid_instead_of_the_asked_one_is_named(lab: Lab) -> None:
    places(lab, "places", "float(reply == self.data.info['city'])")
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering=FORM)
    assert codes(outcome) == {"reward-gold-fails"}
    assert 'written as "…" they earn 1' in outcome.findings[0].message


@pytest.mark.parametrize(
    ("status", "blockers", "recorded"),
    [
        ("passed", (), False),
        ("failed", ("reward-hackable",), False),
        ("inconclusive", ("reward-judge-unsteady",), False),
        ("inconclusive", ("reward-no-gold",), True),
    ],
)
async def test_an_unpaid_rendering_neither_closes_what_a_pass_opened_nor_hides_what_a_failure_named(
    lab: Lab, status: Verdict, blockers: tuple[str, ...], recorded: bool
) -> None:
    places(lab, "places", UNREAD)
    snapshot = await lab.snapshot("places")
    subject = (lab.key, snapshot.name, snapshot.source, snapshot.content)
    found = tuple({"code": code, "severity": "blocker", "message": "m", "fix": "f"} for code in blockers)
    lab.ledger.record(Evidence("test_reward", status, *subject, findings=found))
    outcome = await try_reward(lab, "places", examples=4, search=0, rendering=FORM)
    assert (outcome.status, outcome.facts.proves) == ("failed", recorded)
    assert ("earlier verdict" in outcome.summary) == (not recorded)


async def test_an_unpaid_rendering_that_no_prompt_asks_for_is_a_bad_argument(lab: Lab) -> None:
    places(lab, "places")
    with pytest.raises(BadInput, match="earns anything"):
        await try_reward(lab, "places", examples=4, search=0, rendering="Fair: {info.city}, {info.day}")


def goldless(lab: Lab) -> None:
    """Places whose answers no field is known to hold, and whose reward pays nothing."""
    code = PLACES.replace("PAY", UNREAD).replace("SOLUTION", "").replace("answer: str", "venue: str")
    code = code.replace("answer=", "venue=").replace("self.data.answer", "self.data.venue")
    write(lab, "places", SOUND, places_py=code)


async def test_tasks_without_a_gold_have_their_fields_named(lab: Lab) -> None:
    goldless(lab)
    outcome = await try_reward(lab, "places", examples=4, search=0)
    finding = next(f for f in outcome.findings if f.code == "reward-no-gold")
    assert "{info.city}, {info.day}" in str(finding.fix)


async def test_a_reward_that_pays_no_right_case_says_so_and_shows_the_cases(lab: Lab) -> None:
    goldless(lab)
    right = [
        {
            "name": f"right {n}",
            "task": n,
            "completion": f"<city>{CITIES[n]}</city><day>Monday</day>",
            "expected": "high",
        }
        for n in range(4)
    ]
    wrong = [{"name": f"wrong {n}", "task": n, "completion": "none", "expected": "low"} for n in range(4)]
    outcome = await try_reward(lab, "places", examples=4, search=0, cases=[*right, *wrong])
    finding = next(f for f in outcome.findings if f.code == "reward-constant")
    assert "among them 4 supplied cases that should earn much" in finding.message
    assert "which group of a pattern" in str(finding.fix)
    assert [case["case"] for case in outcome.data["failing_cases"]][:3] == ["right 0", "right 1", "right 2"]
    assert [n.tool for n in outcome.next] == ["read_environment", "test_reward"]


STATED_REPLY = """
    def solution(self):
        city, day = self.data.answer.split("|")
        return f"<city>{city}</city>\\n<day>{day}</day>"
"""


async def test_the_stated_reply_of_a_task_is_the_right_answer_where_rollouts_are_one_reply(lab: Lab) -> None:
    places(lab, "places", solution=STATED_REPLY)
    outcome = await try_reward(lab, "places", examples=4, search=0)
    assert (outcome.status, outcome.data["gold_pass_rate"]) == ("passed", 1.0)
    assert outcome.data["rendering"] == "<city>…</day>"
    assert not codes(outcome) & {"reward-solution-broken"}
    places(lab, "loose", pay="float(city == wanted[0] and day != '')", solution=STATED_REPLY)
    loose = await try_reward(lab, "loose", examples=4, search=0)
    assert "reward-wrong-passes" in {f.code for f in loose.findings}


@pytest.mark.parametrize("rendering", ["<final></final>", "GOLD or GOLD", ""])
async def test_a_rendering_without_one_place_for_the_gold_is_refused(lab: Lab, rendering: str) -> None:
    write(lab, "sound", SOUND)
    with pytest.raises(BadInput, match="not once"):
        await try_reward(lab, "sound", rendering=rendering)


async def test_a_finding_confirms_the_smell_behind_it(lab: Lab) -> None:
    write(lab, "substring", FLAWS["substring"][0])
    outcome = await try_reward(lab, "substring", examples=2)
    (hint,) = [f for f in outcome.findings if f.code == "reward-smell"]
    assert hint.where is not None
    assert hint.where.startswith("substring.py:")
    assert "confirmed: reward-wrong-passes" in hint.message


@pytest.mark.slow
@pytest.mark.parametrize("folder", [assembled("numeric"), EXAMPLES / "gsm8k"], ids=lambda path: path.name)
async def test_what_the_project_ships_passes_as_written(lab: Lab, folder: Path) -> None:
    shutil.copytree(folder, lab.workspace.environments / folder.name)
    outcome = await try_reward(lab, folder.name)
    assert (outcome.status, codes(outcome)) == ("passed", set())


def test_tasks_that_need_a_container_are_evaluated_in_podman_by_the_smallest_size_that_can_pass() -> None:
    same = {"environment": "boxed"}
    given = (same, same, "passed", False, False, False, False, False, None)
    [elsewhere] = reward_report._next(*given)
    assert (elsewhere.tool, dict(elsewhere.arguments or {})) == ("run_eval", same)
    [after] = reward_report._next(*given, in_podman=reward_report._ContainerEvaluation(96, 11.0))
    assert after.tool == "run_eval"
    assert dict(after.arguments or {}) == {**same, "runtime": "podman", "num_examples": 30, "rollouts": 4}
    assert "30 x 4 is the smallest size that can pass, and takes at least 6 minutes" in after.why
    [few] = reward_report._next(*given, in_podman=reward_report._ContainerEvaluation(12, None))
    assert (dict(few.arguments or {})["num_examples"], dict(few.arguments or {})["rollouts"]) == (12, 10)
    assert "minute" not in few.why
