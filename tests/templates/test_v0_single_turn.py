"""The template v0_single_turn, with its own answers and with those of every single-turn kind laid over them.

Each package is made by the fitter's own function from the files of both templates, and scored by the real verifiers
0.1.14 in a process of its own: a gold, nothing, and the gold without its form.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.authoring.assembly import template_names
from prime_lab_mcp.lab.authoring.build import build_sample
from prime_lab_mcp.lab.authoring.naming import PackageNames
from prime_lab_mcp.lab.authoring.template import SINGLE_TURN, environment_kind
from tests.conftest import TEMPLATES
from tests.support.assembled import assembled
from tests.support.interpreters import MATH_VERIFY, OLDEST, older
from tests.templates.loading import modules

pytestmark = pytest.mark.slow
KINDS = sorted(SINGLE_TURN & set(template_names(TEMPLATES)))
FORMS = {"math": ("\\boxed{", "}"), "tool_call": ("<tool_call>", "</tool_call>")}
PROGRAM = """\
import asyncio, importlib, json, logging, sys
from verifiers.types import RolloutTiming, State

asked = json.loads(sys.stdin.read())
told = {}
problems = []


class Watch(logging.Handler):
    def emit(self, record):
        problems.append(record.getMessage())


async def score(env, row, reply):
    state = State(input=dict(row))
    state["task"] = row.get("task", "default")
    state["completion"] = [{"role": "assistant", "content": reply}]
    state.update(trajectory=[], tool_defs=[], is_completed=True, is_truncated=False, stop_condition="max_turns_reached",
                 timing=RolloutTiming(), error=None, reward=None, metrics=None)
    await env.rubric.score_rollout(state)
    return {"reward": state["reward"], **state["metrics"]}


for kind, package in asked.items():
    sys.path.insert(0, package["folder"])
    env = importlib.import_module(package["module"]).load_environment()
    for rubric in getattr(env.rubric, "rubrics", [env.rubric]):
        rubric.logger.addHandler(Watch(level=logging.ERROR))
    rows = list(env.get_dataset())
    scored = []
    for row in rows[:20]:
        gold = row["answer"][0] if isinstance(row["answer"], list) else row["answer"]
        before, after = package["form"]
        forms = [before + gold + after, gold, ""]
        scored.append([asyncio.run(score(env, row, reply)) for reply in forms])
    told[kind] = {
        "columns": sorted(env.get_dataset().column_names), "tasks": len(rows), "held_out": len(env.get_eval_dataset()),
        "system": rows[0]["prompt"][0]["content"], "scored": scored,
        "limited": len(importlib.import_module(package["module"]).load_environment(num_train_examples=3).get_dataset()),
    }
print(json.dumps({"told": told, "problems": problems}))
"""


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with verifiers 0.1.14 and what the templates need."""
    found = asyncio.run(older(OLDEST, MATH_VERIFY))
    assert found.verifiers == "0.1.14"
    return str(found.python)


@pytest.fixture(scope="module")
def scored(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = tmp_path_factory.mktemp("made")
    asked = {}
    for kind in [*KINDS, "v0_single_turn"]:
        names = PackageNames(f"made_{kind}", f"made-{kind}".replace("_", "-"), f"Made{kind.title().replace('_', '')}")
        build_sample(environment_kind(TEMPLATES, kind, "v0"), made / kind, names, None)
        form = FORMS.get(kind, ("<answer>", "</answer>"))
        asked[kind] = {"folder": str(made / kind), "module": names.module, "form": form}
    ended = subprocess.run(
        [python, "-c", PROGRAM], input=json.dumps(asked), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("kind", [*KINDS, "v0_single_turn"])
def test_golds_of_the_kind_are_paid_in_full_by_the_older_verifiers(kind: str, scored: dict[str, Any]) -> None:
    told = scored["told"][kind]
    assert [row[0]["reward"] for row in told["scored"]] == pytest.approx([1.1] * len(told["scored"]))
    assert len(told["scored"]) == 20


@pytest.mark.parametrize("kind", [*KINDS, "v0_single_turn"])
def test_a_gold_without_its_form_and_an_empty_reply_earn_nothing(kind: str, scored: dict[str, Any]) -> None:
    for _, bare, empty in scored["told"][kind]["scored"]:
        assert (bare["reward"], empty["reward"]) == (0.0, 0.0)


@pytest.mark.parametrize("kind", [*KINDS, "v0_single_turn"])
def test_tasks_are_asked_as_the_kind_asks_them_and_can_be_limited(kind: str, scored: dict[str, Any]) -> None:
    told = scored["told"][kind]
    answers = modules("numeric" if kind == "v0_single_turn" else kind, "answers")["answers"]
    assert told["system"].endswith(answers.FORMAT)
    assert {"question", "answer", "prompt"} <= set(told["columns"])
    assert (told["tasks"] >= 64, told["held_out"] >= 10, told["limited"]) == (True, True, 3)


def test_no_reward_raised_anything_that_verifiers_swallowed(scored: dict[str, Any]) -> None:
    assert scored["problems"] == []


def test_only_the_five_names_of_answers_are_used_so_that_any_kind_fits() -> None:
    folder = assembled("v0_single_turn") / "v0_single_turn_template"
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py") if "import verifiers" in path.read_text()]
    lines = [line for text in texts for line in text.splitlines() if "v0_single_turn_template.answers import" in line]
    used = {name.strip() for line in lines for name in line.partition(" import ")[2].split(",")}
    assert used == {"FORMAT", "ask", "gold_of", "in_form", "score"}
    mine = {path.name for path in folder.glob("*.py")}
    theirs = {path.name for path in (assembled("numeric") / "numeric_template").glob("*.py")}
    assert mine - theirs == {"environment.py", "rewards.py"}


def test_its_own_answers_are_those_of_numeric() -> None:
    own, numeric = assembled("v0_single_turn") / "v0_single_turn_template", assembled("numeric") / "numeric_template"
    for name in ("answers.py", "numbers.py", "tags.py", "shape.py"):
        mine = Path(own, name).read_text(encoding="utf-8").replace("v0_single_turn_template", "numeric_template")
        assert mine == Path(numeric, name).read_text(encoding="utf-8"), name
