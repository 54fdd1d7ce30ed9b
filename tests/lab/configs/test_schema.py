"""The vendored schema accepts what prime-rl accepts and names what it refuses."""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from typing import Any

import pytest

from prime_lab_mcp.lab.base.versions import VERIFIERS
from prime_lab_mcp.lab.configs.schema import SchemaProblem, load_env_schema, schema_problems, tables_of_key
from tests.lab.configs.examples import SOUND
from tests.lab.configs.write_env_schema import PLACE, env_schema


def problems(text: str, kind: Any = "rl") -> list[SchemaProblem]:
    return schema_problems(tomllib.loads(text), kind)


def only(text: str) -> SchemaProblem:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def test_a_sound_config_has_no_problem() -> None:
    assert problems(SOUND) == []


def test_the_two_required_tables_are_asked_for() -> None:
    assert [(p.key, p.kind) for p in problems("max_steps = 3")] == [("trainer", "missing"), ("orchestrator", "missing")]


@pytest.mark.parametrize(
    ("line", "key", "near"),
    [
        ("[orchestrator]\nbatch_sizes = 3", "orchestrator.batch_sizes", "batch_size"),
        ("[trainer.optim]\nlearning_rte = 1", "trainer.optim.learning_rte", None),
        ("[model]\nnam = 'x'", "model.nam", "name"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(line: str, key: str, near: str | None) -> None:
    tables = "".join(f"[{t}]\n" for t in ("trainer", "orchestrator") if f"[{t}]" not in line and f"[{t}." not in line)
    found = only(tables + line)
    assert (found.key, found.kind, found.near) == (key, "unknown", near)


def test_arrays_of_tables_are_named_by_index() -> None:
    text = "[trainer]\n[[orchestrator.train.source]]\nname='a'\n[[orchestrator.train.source]]\nratio='much'\n"
    assert only(text).key == "orchestrator.train.source[1].ratio"


@pytest.mark.parametrize(
    ("value", "fits"),
    [("128", True), ("128.0", True), ("'128'", False), ("1.5", False), ("true", False), ("0", False), ("'None'", True)],
)
def test_whole_numbers_are_told_from_everything_else(value: str, fits: bool) -> None:
    assert (problems(f"[trainer]\n[orchestrator]\nbatch_size = {value}") == []) is fits


def test_the_tag_of_a_union_decides_what_its_table_may_hold() -> None:
    single = "[trainer]\n[orchestrator]\n[deployment]\nnum_train_nodes = 2"
    multi = "[trainer]\n[orchestrator]\n[deployment]\ntype = 'multi_node'\nnum_train_nodes = 2"
    assert only(single).key == "deployment.num_train_nodes"
    assert problems(multi) == []


def test_keys_of_an_environment_are_its_own_business() -> None:
    text = "[trainer]\n[[orchestrator.train.source]]\nenv.taskset.id='a/b'\nenv.taskset.anything=1\nenv.player.x=1"
    assert problems(text) == []


def test_the_type_of_a_taskset_id_is_judged_all_the_same() -> None:
    text = "[trainer]\n[[orchestrator.train.source]]\nenv.taskset.id = 3"
    assert only(text).key == "orchestrator.train.source[0].env.taskset.id"


def test_keys_of_the_platform_are_known_at_the_top_and_typed() -> None:
    assert problems(f"name='x'\ngpu_type='H200'\nenv_files=['a']\n{SOUND}") == []
    assert [p.key for p in problems(f"gpu_type = 3\n{SOUND}")] == ["gpu_type"]


def test_any_argument_of_vllm_is_accepted() -> None:
    assert problems("[trainer]\n[orchestrator]\n[inference.vllm]\nsome_new_flag = 1") == []


def test_fine_tuning_has_a_schema_of_its_own() -> None:
    text = "max_steps=10\n[model]\nname='x'\n[data]\nbatch_size=4"
    assert problems(text, "sft") == []
    assert [p.key for p in problems(text + "\n[orchestrator]", "sft")] == ["orchestrator"]


def test_a_misplaced_key_can_be_told_its_home() -> None:
    assert tables_of_key("rl")["group_size"][0] == "orchestrator.group_size"


def test_the_schema_of_environments_is_of_the_pinned_verifiers() -> None:
    assert load_env_schema()["verifiers"] == VERIFIERS


@pytest.mark.stress
def test_the_schema_of_environments_is_that_of_the_installed_verifiers() -> None:
    kept = json.loads(PLACE.read_text(encoding="utf-8"))
    if metadata.version("verifiers") != kept["verifiers"]:
        pytest.skip("another version of verifiers is installed")
    assert env_schema() == kept
