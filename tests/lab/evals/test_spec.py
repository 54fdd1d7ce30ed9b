"""Specifications, command lines and golds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from prime_lab_mcp.lab.evals.evidence_limits import draw_limit
from prime_lab_mcp.lab.evals.rehearsal_answers import final_answer
from prime_lab_mcp.lab.evals.runner import command
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.sandbox.caches import DataCache

SPEC = EvalSpec(
    environment="sums",
    source="s",
    content="c",
    tree=Path("/t"),
    api="v1",
    module="sums",
    python=Path("/p/python"),
    program=Path("/p/vf-eval"),
    verifiers="0.4.0",
    model="m",
    endpoint=Endpoint("url", "http://127.0.0.1:1/v1"),
    num_examples=50,
    rollouts=8,
    tasks=20,
    max_tokens=64,
    env_args={"split": "train"},
    weights={"correct": 1.0},
    price=Price(1.0, 2.0),
    seed=7,
)


def test_a_specification_survives_json() -> None:
    assert EvalSpec.from_json(json.loads(json.dumps(SPEC.as_json()))) == SPEC
    assert "stated_form" not in SPEC.as_json()  # evaluations of earlier versions keep their intents


@pytest.mark.parametrize(
    "change",
    [{"model": "n"}, {"content": "d"}, {"rollouts": 9}, {"seed": 8}, {"env_args": {}}, {"stated_form": "Sum: …"}],
)
def test_what_changes_the_measurement_changes_the_intent(change: dict[str, object]) -> None:
    assert dataclasses.replace(SPEC, **change).intent != SPEC.intent  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"concurrency": 1}, {"deadline_s": 1.0}, {"tree": Path("/u")}, {"price": None}])
def test_what_only_changes_how_it_runs_keeps_the_intent(change: dict[str, object]) -> None:
    assert dataclasses.replace(SPEC, **change).intent == SPEC.intent  # type: ignore[arg-type]


def test_a_rehearsal_in_another_process_measures_the_same() -> None:
    ports = [dataclasses.replace(SPEC, endpoint=Endpoint("prime", f"http://127.0.0.1:{n}/v1")) for n in (1, 2)]
    assert ports[0].intent == ports[1].intent
    assert dataclasses.replace(SPEC, endpoint=Endpoint("url", "http://127.0.0.1:2/v1")).intent != SPEC.intent


def test_tasks_that_were_drawn_by_a_field_are_named_to_vf_eval_and_make_another_evaluation(tmp_path: Path) -> None:
    drawn = dataclasses.replace(SPEC, by="level", drawn=(3, 11), num_examples=2)
    files = command.JobFiles(tmp_path)
    command.eval_command(drawn, files, "http://127.0.0.1:5/v1")
    select = json.loads(files.config.read_text(encoding="utf-8"))["select"]
    assert (select["include"], select["limit"]) == ({"idx": [3, 11]}, 2)
    assert EvalSpec.from_json(json.loads(json.dumps(drawn.as_json()))) == drawn
    assert drawn.intent != SPEC.intent
    assert "by" not in SPEC.as_json()
    older = {name: value for name, value in drawn.as_json().items() if name != "draw_bias"}
    assert draw_limit(EvalSpec.from_json(older)) is not None
    assert draw_limit(drawn) is None
    assert "by level" in drawn.order


def test_a_small_taskset_bounds_the_plan() -> None:
    assert (SPEC.planned_tasks, SPEC.planned) == (20, 160)


def test_v1_gets_a_seeded_shuffle_and_our_harness(tmp_path: Path) -> None:
    files = command.JobFiles(tmp_path)
    argv = command.eval_command(SPEC, files, "http://127.0.0.1:5/v1")
    config = json.loads(files.config.read_text())

    assert argv == ["/p/python", "/p/vf-eval", "@", str(files.config), "--clean"]
    assert config["select"] == {"shuffle": True, "seed": 7, "limit": 50}
    assert config["env"]["agent"]["harness"] == {"id": "vf-lab-chat"}
    assert config["env"]["taskset"] == {"id": "sums", "split": "train"}
    assert config["push"] is False
    assert SPEC.harness_name == "null (in-process)"


def test_an_endless_taskset_is_shuffled_within_a_bound(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, infinite=True, tasks=None)
    command.eval_command(spec, command.JobFiles(tmp_path), "http://127.0.0.1:5/v1")

    assert json.loads((tmp_path / "eval.json").read_text())["select"]["include"] == {"idx": ["0:500"]}


def test_another_harness_is_passed_through(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, harness="bash")
    command.eval_command(spec, command.JobFiles(tmp_path), "http://127.0.0.1:5/v1")

    assert json.loads((tmp_path / "eval.json").read_text())["env"]["agent"]["harness"] == {"id": "bash"}
    assert spec.harness_name == "bash"


@pytest.mark.parametrize(
    ("version", "order", "shuffled"), [("0.1.14", "file", False), ("0.2.1", "shuffled (seed 7)", True)]
)
def test_v0_shuffles_where_its_program_can(tmp_path: Path, version: str, order: str, shuffled: bool) -> None:
    spec = dataclasses.replace(SPEC, api="v0", verifiers=version)
    argv = command.eval_command(spec, command.JobFiles(tmp_path), "http://127.0.0.1:5/v1")

    assert spec.order == order
    assert ("--shuffle" in argv) is shuffled
    assert argv[argv.index("-a") + 1] == '{"split": "train"}'


def test_vf_eval_sees_no_key_but_the_relays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PRIME_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-real-secret")
    found = command.eval_environment(
        SPEC, command.JobFiles(tmp_path), "http://127.0.0.1:5/v1", "relay-secret", (), DataCache(tmp_path, ())
    )

    assert "a-real-secret" not in found.values()
    assert found["OPENAI_API_KEY"] == found["PRIME_API_KEY"] == "relay-secret"
    assert found["HOME"] == str(tmp_path / "home")


def test_a_key_that_a_person_allowed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for-the-judge")
    found = command.eval_environment(
        SPEC, command.JobFiles(tmp_path), "http://x/v1", "relay-secret", ("OPENAI_API_KEY",), DataCache(tmp_path, ())
    )

    assert found["OPENAI_API_KEY"] == "for-the-judge"


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("3+4=7\n#### 7", "7"),
        (r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("B", "B"),
        (42, "42"),
        (True, "yes"),
        (["a", "b"], "a"),
        ({"x": 1}, ""),
        (None, ""),
    ],
)
def test_golds_are_the_plain_final_answer(answer: object, plain: str) -> None:
    assert final_answer(answer) == plain
