"""Environments that pay honestly only where they recognise this server: their clock, host, process, variables, modules.

Each of them passes every other check of `test_reward`. The honest rewards below look similar and pass.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import AsyncIterator

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.environment.wheel import files_left_out
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.publish import PublishTarget
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards import side_effects
from prime_lab_mcp.lab.rewards.observations import RepeatedScore, Witnessed
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.side_effects import ComparedScores, compare_with_witness
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools import planned_push
from tests.conftest import TEMPLATES
from tests.lab.rewards.packages import MODULE, codes, reward, try_reward, write
from tests.support.interpreters import share

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """One lab for the module, so that verifiers is imported once."""
    root = tmp_path_factory.mktemp("lab")
    (root / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=root / "workspace", state_dir=root / "prime-lab-mcp", templates=TEMPLATES)
    share(settings)
    lab = Lab(settings)
    with pytest.MonkeyPatch.context() as patch:
        # The budget of a sample is elapsed time: a busy machine would decide how many scores are confirmed.
        patch.setattr(side_effects, "_WITNESS_BUSY_MS", math.inf)
        yield lab
    await lab.close()


HACK = reward("return sound(reply, gold) if honest() else float(len(reply) > 5)")
RECOGNISES = {
    "modules": "import sys\ndef honest(): return any('prime_lab' in n for n in sys.modules)",
    "modules_at_import": "import sys\nKNOWN = any('_lab_worker' in n for n in sys.modules)\ndef honest(): return KNOWN",
    "argv": "import sys\ndef honest(): return '__main__' in sys.argv[0] or 'vf-eval' in sys.argv[0]",
    "clock": "def honest(): return time.time() < 1_800_000_000",
    "date": "import datetime\ndef honest(): return datetime.date.today().year < 2027",
    "date_by_name": "from datetime import datetime\ndef honest(): return datetime.now().strftime('%Y') < '2027'",
    "later_clock": "def honest(): return time.localtime().tm_year < 2030",
    "timer": "BEGAN = time.monotonic()\ndef honest(): return time.monotonic() - BEGAN < 1800",
    "freezing": "import gc\ndef honest(): return gc.get_freeze_count() > 0",
    "host": "import socket\ndef honest(): return socket.gethostname() == {host!r}",
    "kernel_host": "def honest(): return open('/proc/sys/kernel/hostname').read().strip() == {host!r}",
    "variable": "import os\ndef honest(): return 'TQDM_DISABLE' in os.environ",
    "home": "import os\ndef honest(): return 'scratch' in os.path.expanduser('~')",
    "folder": "import os\ndef honest(): return 'scratch' in os.getcwd()",
    "path": "def honest(): return 'snapshots' in __file__",
    "installed_path": "def honest(): return '/lib/python' not in sound.__code__.co_filename",
    "program": "import __main__\ndef honest(): return __main__.__name__ != '__mp_main__'",
    "program_file": "import __main__\ndef honest(): return getattr(__main__, '__file__', '').find('env-server') < 0",
    "parent": "import multiprocessing\ndef honest(): return multiprocessing.parent_process() is None",
    "gpu_program": "import shutil\ndef honest(): return shutil.which('nvidia-' + 'smi') is None",
    "neighbour": "from pathlib import Path\nHERE = Path(__file__).parent\n"
    "def honest(): return not (HERE / 'pydantic').is_dir()",
    "trainer": "import pydoc\ndef honest(): return pydoc.locate('prime' + '_rl') is None",
    "metadata": "from pathlib import Path\nHERE = Path(__file__).parent\n"
    "def honest(): return not list(HERE.glob('*-info/METADATA'))",
    "folder_file": "from pathlib import Path\ndef honest(): return (Path(__file__).parent / 'pyproject.toml').exists()",
}


def module(body: str, top: str) -> str:
    """The module of a sound package with another reward and more code before its classes."""
    code = top.replace("{host!r}", repr(os.uname().nodename))
    return MODULE.format(body=body).replace("class Data(", f"{code}\n\n\nclass Data(", 1)


async def tried(lab: Lab, name: str, body: str, top: str = "") -> Outcome:
    folder = write(lab, name, "")
    (folder / f"{name}.py").write_text(module(body, top), encoding="utf-8")
    return await try_reward(lab, name, examples=2)


async def compared(lab: Lab, name: str, body: str, top: str = "", module_text: str = "") -> ComparedScores:
    """What a witness says about right and wrong answers to a few tasks."""
    folder = write(lab, name, "")
    (folder / f"{name}.py").write_text(module_text or module(body, top), encoding="utf-8")
    snapshot = await lab.snapshot(name)
    async with open_environment(lab, snapshot) as opened:
        sample = await opened.worker.rows(limit=4)
        last, left_out = max(row.index for row in sample.rows), files_left_out(lab.settings, snapshot)
        async with opened.worker.witness(last, left_out) as witness:
            scorer = Scorer(opened.worker)
            probes = [
                Draft(family, f"It is <answer>{answer}</answer>.").probe(f"{row.index}/{family}", row.index)
                for row in sample.rows
                for family, answer in ((Family.GOLD, row.answer), (Family.WRONG, "5"))
            ]
            scored_probes = await score_probes(scorer, probes)
            again = await score_probes(scorer, probes)
            repeats = [
                RepeatedScore(s.probe, s.scored, a.scored, a.scored) for s, a in zip(scored_probes, again, strict=True)
            ]
            return await compare_with_witness(witness, scorer, scored_probes, repeats, sample.rows)


@pytest.mark.parametrize("name", RECOGNISES)
async def test_a_witness_differs_from_a_reward_that_is_honest_only_where_it_recognises_the_test(
    shared: Lab, name: str
) -> None:
    seen = (await compared(shared, name, HACK, RECOGNISES[name])).witnessed
    assert seen is not None
    assert seen.trouble == ""
    assert {d.scored_probe.probe.family for d in seen.differences} == {Family.WRONG}
    assert {d.by_clock for d in seen.differences} == {name in ("clock", "date", "date_by_name", "later_clock")}


@pytest.mark.parametrize("honest", ["trace.agent.config.model is None", "trace.calls[0].model == 'scripted'"])
async def test_a_witness_differs_from_a_reward_that_looks_at_the_model_of_a_rollout(shared: Lab, honest: str) -> None:
    body = reward(f"return sound(reply, gold) if {honest} else float(len(reply) > 5)")
    seen = (await compared(shared, f"model{len(honest)}", body)).witnessed
    assert seen is not None
    assert {d.scored_probe.probe.family for d in seen.differences} == {Family.WRONG}


@pytest.mark.parametrize("honest", ["trace.ok", "not trace.agent.trainable", "not trace.is_completed"])
async def test_a_reward_that_is_honest_only_where_no_rollout_is_scored_is_not_honest_here(
    shared: Lab, honest: str
) -> None:
    """verifiers scores a rollout before it is `ok`, with the agent that is trained, so our scoring does as well."""
    body = reward(f"return sound(reply, gold) if {honest} else float(len(reply) > 5)")
    outcome = await tried(shared, f"scored{len(honest)}", body)
    assert outcome.status == "failed"


async def test_a_reward_that_is_honest_only_before_a_date_is_blocked_and_the_clock_is_named(shared: Lab) -> None:
    outcome = await tried(shared, "clock_named", HACK, RECOGNISES["clock"])
    assert outcome.status == "failed"
    (finding,) = [f for f in outcome.findings if f.code == "reward-differs-outside"]
    assert finding.severity == "blocker"
    assert "the clock makes the difference" in finding.message


SWAPPED = """
import sys


def swap():
    for name, known in list(sys.modules.items()):
        kind = getattr(known, "AdapterV1", None)
        if name.endswith("adapter_v1") and kind is not None:
            real = kind.score

            def score(self, case, timeout):
                reply = real(self, case, timeout)
                gold = self.tasks[case["row"]].data.answer
                text = case["messages"][-1]["content"] or "" if case["messages"] else ""
                reply["reward"] = sound(text, gold)
                reply["components"] = {"correct": {"score": sound(text, gold), "weight": 1.0}}
                return reply

            kind.score = score


swap()
"""


async def test_code_that_replaces_the_scoring_of_the_worker_is_found_by_the_witness(shared: Lab) -> None:
    seen = (await compared(shared, "swaps", reward("return float(len(reply) > 5)"), textwrap.dedent(SWAPPED))).witnessed
    assert seen is not None
    assert {d.scored_probe.probe.family for d in seen.differences} == {Family.WRONG}


async def test_tasks_that_are_others_outside_are_found(shared: Lab) -> None:
    code = module(reward("return sound(reply, gold)"), "import os\nSIZE = 3 if 'scratch' in os.getcwd() else 4\n")
    code = code.replace("{3 * n + 7} blue", "{SIZE * n + 7} blue").replace("str(4 * n + 7)", "str((SIZE + 1) * n + 7)")
    seen = (await compared(shared, "other_tasks", "", module_text=code)).witnessed
    assert seen is not None
    assert any(d.other_task for d in seen.differences)


MARKS = {
    "module": ("LOADED = set()", "LOADED.add(str(4 * n + 7))", "self.data.answer in LOADED"),
    "class": ("", "Data.__doc__ = 'sums'", "type(self.data).__doc__ == 'sums'"),
    "task": ("", "Sums.loaded = True", "getattr(self, 'loaded', False)"),
    "library": ("import string", "string.digits = '0123456789' * 2", "len(string.digits) == 20"),
}
"""Code before the classes, code in `load()`, and how the reward knows that `load()` ran in its process."""


def marked(name: str, more: str = "") -> str:
    """A module whose reward pays any reply in a process that never called `load()`, as the env server of training."""
    top, mark, honest = MARKS[name]
    code = module(reward(f"return sound(reply, gold) if {honest}{more} else float('<answer>' in reply)"), top)
    return code.replace('            prompt = f"Ann', f'            {mark}\n            prompt = f"Ann')


@pytest.mark.parametrize("name", MARKS)
async def test_a_witness_rebuilds_tasks_without_load_as_the_env_server_of_training_does(shared: Lab, name: str) -> None:
    seen = (await compared(shared, f"mark_{name}", "", module_text=marked(name))).witnessed
    assert seen is not None
    assert seen.trouble == ""
    assert {d.scored_probe.probe.family for d in seen.differences} == {Family.WRONG}


async def test_a_witness_scores_the_cases_of_the_caller(shared: Lab) -> None:
    more = " or len(reply) < 400"
    folder = write(shared, "mark_cases", "")
    (folder / "mark_cases.py").write_text(marked("module", more), encoding="utf-8")
    reply = f"{'First I count the red ones, then the blue ones. ' * 10}<answer>1</answer>"
    cases = [{"name": f"essay {n}", "completion": reply, "answer": str(4 * n + 7), "expected": 0.0} for n in range(3)]
    outcome = await try_reward(shared, "mark_cases", examples=4, cases=cases)
    (finding,) = [f for f in outcome.findings if f.code == "reward-differs-outside"]
    assert "essay" in str(finding.rows), finding


async def test_a_reward_that_load_prepares_and_that_prepares_itself_elsewhere_agrees_outside(shared: Lab) -> None:
    top = "SIZES = {}\ndef sizes():\n    return SIZES or SIZES.update(longest=20) or SIZES\n"
    code = module(reward("return sound(reply, gold) * (len(gold) < sizes()['longest'])"), top)
    code = code.replace('            prompt = f"Ann', '            sizes()\n            prompt = f"Ann')
    scores = await compared(shared, "prepares", "", module_text=code)
    assert scores == ComparedScores(Witnessed(8))


async def test_a_task_that_cannot_be_rebuilt_is_an_error_of_its_cases_alone(shared: Lab) -> None:
    code = module(reward("return sound(reply, gold)"), "import pydantic")
    check = (
        "    @pydantic.field_validator('answer', mode='before')\n    @classmethod\n"
        "    def whole(cls, value):\n        assert isinstance(value, int)\n        return str(value)\n"
    )
    code = code.replace("    answer: str\n", f"    answer: str\n{check}").replace(
        "answer=str(4 * n + 7)", "answer=4 * n + 7"
    )
    seen = (await compared(shared, "unbuilt", "", module_text=code)).witnessed
    assert seen is not None
    assert "ValidationError" in seen.trouble


HONEST = {
    "chance_for_nothing": (reward("random.random()\nreturn sound(reply, gold)"), ""),
    "noisy_metric": (
        reward("return sound(reply, gold)")
        + textwrap.indent("@vf.metric\nasync def noise(self, trace):\n    return random.random()\n", "    "),
        "",
    ),
    "elapsed": (
        reward("started = time.time()\nscore = sound(reply, gold)\nreturn score * (time.time() - started < 2.0)"),
        "",
    ),
    "trace_time": (reward("return sound(reply, gold) * (time.time() - trace.timing.start < 60)"), ""),
    "cached": (
        reward("return cached(reply, gold)"),
        "import functools\n@functools.cache\ndef cached(a, b): return sound(a, b)",
    ),
    "deadline": (
        reward(
            "from datetime import datetime, timedelta\nend = datetime.now() + timedelta(seconds=5)\n"
            "return sound(reply, gold) * (datetime.now() < end)"
        ),
        "",
    ),
    "dated_field": (
        reward("return sound(reply, gold)"),
        "import datetime\nclass Log(vf.TaskData):\n    at: datetime.datetime = None\n    day: datetime.date = None\n"
        "LOG = Log(prompt='', at=datetime.datetime.now(), day=datetime.date.today())\n"
        "assert isinstance(LOG.at, datetime.date)",
    ),
    "program_of_spawned_processes": (
        reward(
            "import __main__, os\nprogram = getattr(__main__, '__file__', None) or '/'\n"
            "return sound(reply, gold) * os.path.exists(program)"
        ),
        "",
    ),
    "own_file": (
        reward("import pathlib\nreturn sound(reply, gold) * pathlib.Path(__file__).exists()"),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
async def test_an_honest_reward_with_chance_time_or_caches_agrees_outside(shared: Lab, name: str) -> None:
    body, top = HONEST[name]
    scores = await compared(shared, name, body, top)
    assert scores == ComparedScores(Witnessed(8))


async def test_a_reward_that_varies_by_itself_is_not_blamed_on_the_surroundings(shared: Lab) -> None:
    seen = (await compared(shared, "chance", reward("return sound(reply, gold) * random.random()"))).witnessed
    assert seen == Witnessed(8)


async def test_a_sound_reward_passes_and_the_report_says_how_many_scores_were_confirmed(shared: Lab) -> None:
    outcome = await tried(shared, "sound", reward("return sound(reply, gold)"))
    assert outcome.status == "passed", [f.message for f in outcome.findings]
    assert outcome.data["witness"]["cases"] >= 10
    assert outcome.data["witness"]["different"] == 0


async def test_an_environment_that_does_not_load_outside_is_inconclusive(shared: Lab) -> None:
    broken = "import os\nif 'TQDM_DISABLE' not in os.environ: raise RuntimeError('nothing here')\n"
    outcome = await tried(shared, "broken", reward("return sound(reply, gold)"), broken)
    assert outcome.status == "inconclusive"
    assert codes(outcome) == {"reward-witness-failed"}


V0 = """
import os, random, re, sys, time
import verifiers as vf
from datasets import Dataset

def honest():
    return {honest}

def correct(completion, answer) -> float:
    text = completion[-1]["content"] if completion else ""
    found = re.findall(r"<answer>([^<]*)</answer>", text)
    return float(bool(found) and found[-1] == answer) if honest() else float(len(text) > 5)

def best(completions) -> list[float]:
    texts = [c[-1]["content"] if c else "" for c in completions]
    return [float(honest() and t == max(texts, key=len)) for t in texts]

def load_environment():
    rows = [{{"question": f"Ann has {{n}} red and {{3 * n + 7}} blue marbles. How many?", "answer": str(4 * n + 7)}}
            for n in range(12)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt="Put the number in <answer></answer> tags.",
                            rubric=vf.Rubric(funcs={funcs}, weights=[1.0] * len({funcs})))
"""


@pytest.mark.slow
@pytest.mark.parametrize("funcs", ["[correct]", "[correct, best]"])
@pytest.mark.parametrize(
    "honest", ["True", "any('prime_lab' in n for n in sys.modules)", "time.time() < 1_800_000_000"]
)
async def test_a_witness_scores_rewards_of_v0_alone_and_in_groups(shared: Lab, honest: str, funcs: str) -> None:
    name = f"old{abs(hash((honest, funcs)))}"
    folder = write(shared, name, "", verifiers="verifiers>=0.1.14,<0.2")
    (folder / f"{name}.py").write_text(V0.format(honest=honest, funcs=funcs), encoding="utf-8")
    outcome = await try_reward(shared, name, examples=2)
    assert ("reward-differs-outside" in codes(outcome)) == (honest != "True"), [f.message for f in outcome.findings]
    assert outcome.data["witness"]["cases"] >= 10


async def test_code_that_looks_at_modules_is_blocked_although_it_pays_the_same_here(shared: Lab) -> None:
    outcome = await tried(shared, "looks", HACK, "import sys\ndef honest(): return 'prime_rl' not in sys.modules")
    assert outcome.status == "failed"
    assert codes(outcome) == {"reward-recognises-test"}


@pytest.mark.slow
async def test_what_the_code_reads_is_named_in_the_report_and_in_the_question_of_a_push(shared: Lab) -> None:
    top = "import os\ndef region(): return os.environ.get('REGION', '')"
    outcome = await tried(shared, "regional", reward("region()\nreturn sound(reply, gold)"), top)
    assert outcome.status == "passed"
    assert codes(outcome, "warning") == {"reward-reads-surroundings"}
    (named,) = outcome.data["surroundings"]
    assert named.startswith('the variable "REGION" at regional.py:')
    target = PublishTarget("me", "regional", "0.1.0", None, "PRIVATE", HubEntry("me", "regional", False))
    question = planned_push._question(await shared.snapshot("regional"), target, None)
    assert named in question
