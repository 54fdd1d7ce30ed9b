"""Tables of an environment are judged by its own config classes, where a check recorded them."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas
from prime_lab_mcp.lab.configs.examine import config_findings
from tests.lab.configs.examples import codes, sound

ID = "alice/tiny-env@0.1.0"
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
TASKSET = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": TEXT,
        "task": {"type": "object", "additionalProperties": False, "properties": {"tolerance": {"type": "number"}}},
        "system_prompt": {"anyOf": [TEXT, {"type": "null"}]},
        "split": {"enum": ["train", "eval"], "type": "string"},
        "seed": NUMBER,
        "subjects": {"type": "array", "items": TEXT},
    },
}
ENV = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": TEXT,
        "taskset": {},
        "max_concurrent_agents": NUMBER,
        "agent": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"harness": {}, "max_turns": NUMBER, "runtime": {"type": "object"}},
        },
    },
}
SEEN = ConfigContext(shapes={ID: EnvironmentSchemas(TASKSET, ENV)})
HEAD = 'id = "alice/tiny-env@0.1.0"\n\n'


def found(*added: str, seen: ConfigContext = SEEN) -> list[Finding]:
    """Findings of the sound config with lines added to its training taskset."""
    text = HEAD.rstrip() + "\n" + "\n".join(added) + "\n\n"
    return [f for f in config_findings(sound((HEAD, text)), seen) if f.code != "config-eval-on-train"]


def test_what_the_environment_takes_is_silent() -> None:
    assert found('split = "train"', "seed = 3", 'subjects = ["a"]', "task.tolerance = 0.5") == []
    assert found('system_prompt = "None"') == []


def test_a_typo_is_named_with_the_key_that_was_meant() -> None:
    (finding,) = found('splt = "train"')
    assert (finding.code, finding.severity) == ("config-unknown-taskset-key", "blocker")
    assert '"split"' in finding.fix
    assert "env.taskset.splt" in str(finding.where)


def test_a_key_like_no_other_is_told_what_there_is() -> None:
    (finding,) = found("hue = 1")
    assert "split, seed, subjects" in finding.fix


@pytest.mark.parametrize(
    "line", ['split = "trian"', 'seed = "one"', "seed = -1", 'subjects = "a"', 'task.tolerance = "much"']
)
def test_a_value_that_the_class_refuses_is_named(line: str) -> None:
    assert [f.code for f in found(line)] == ["config-taskset-value"]


def test_keys_of_the_task_are_judged_too() -> None:
    assert [f.code for f in found("task.tolerence = 1.0")] == ["config-unknown-taskset-key"]


def test_agents_limits_and_runtimes_are_judged() -> None:
    turns = ('harness]\nid = "null"\n', 'harness]\nid = "null"\n[orchestrator.train.source.env.agent]\nmax_turn = 3\n')
    (finding,) = config_findings(sound(turns), SEEN)
    assert (finding.code, finding.severity) == ("config-environment-key", "blocker")
    assert "max_turns" in finding.fix
    named = ('harness]\nid = "null"\n', 'harness]\nid = "null"\n[orchestrator.train.source.env]\nid = "other"\nx = 1\n')
    assert codes(sound(named), "blocker", SEEN) == set()


def test_a_folder_that_may_have_changed_is_only_a_warning() -> None:
    (finding,) = found('splt = "train"', seen=ConfigContext(shapes={ID: EnvironmentSchemas(TASKSET, ENV, exact=False)}))
    assert finding.severity == "warning"


def test_an_unknown_environment_is_said_once_and_proves_nothing() -> None:
    (finding,) = found('splt = "train"', seen=ConfigContext(shapes={}))
    assert (finding.code, finding.severity) == ("config-taskset-unchecked", "warning")
    assert found('splt = "train"', seen=ConfigContext()) == []


@pytest.mark.parametrize("schema", [{"properties": 3}, {"properties": {"split": {"$ref": "#/$defs/gone"}}}, {}])
def test_a_record_that_is_no_schema_breaks_nothing(schema: dict[str, object]) -> None:
    assert found('split = "train"', seen=ConfigContext(shapes={ID: EnvironmentSchemas(schema, schema)})) == []
