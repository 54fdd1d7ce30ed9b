"""Static rules of the v1 API report the line that breaks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.environment.package_texts import V1, findings, told

MORE = "class More(S):\n    pass\n"
ENV = "class E(vf.SingleAgentEnv, vf.Env[vf.SingleAgentEnvConfig]):\n    pass\nclass F(E):\n    pass\n"


def exporting(names: str, before: str = "") -> dict[str, str | None]:
    return {"thing.py": V1.replace('__all__ = ["S"]', f"{before}__all__ = {names}")}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (exporting('["S", "More"]', MORE), "exactly one Taskset, and it names 2"),
        (exporting('["T"]'), "exactly one Taskset, and it names 0"),
        (exporting('["S", "E", "F"]', ENV), "at most one Env, and it names 2"),
        (exporting('["S", "Nowhere"]'), "which the module lacks"),
        ({"thing.py": V1.replace('__all__ = ["S"]', "")}, "has no __all__"),
    ],
)
def test_wrong_exports_block_before_anything_runs(tmp_path: Path, files: dict[str, str | None], said: str) -> None:
    found = told(tmp_path, files, "exports")
    assert [f.severity for f in found] == ["blocker"]
    assert said in found[0].message
    assert found[0].where


@pytest.mark.parametrize(
    "files",
    [
        exporting('["S", "E"]', ENV),
        exporting('["S", "T"]'),
        exporting('[n for n in ("S",)]'),
        exporting('["S"]\n__all__ += ["E"]', ENV),
        {"thing.py": None, "thing/__init__.py": "from thing.tasks import S\n__all__ = ['S']\n", "thing/tasks.py": V1},
    ],
)
def test_right_or_computed_exports_are_left_to_loading(tmp_path: Path, files: dict[str, str | None]) -> None:
    assert findings(tmp_path, files) == []


@pytest.mark.parametrize(
    ("mark", "kind", "found"),
    [
        ("@vf.reward", "def", True),
        ("@vf.reward(weight=0.5)", "def", True),
        ("@vf.metric", "def", True),
        ("@vf.stop", "def", False),
        ("@staticmethod", "def", False),
        ("@vf.reward", "async def", False),
    ],
)
def test_a_hook_that_verifiers_awaits_has_to_be_async(tmp_path: Path, mark: str, kind: str, found: bool) -> None:
    code = V1.replace(
        "class S(", f"class U(T):\n    {mark}\n    {kind} more(self, trace):\n        return 1.0\nclass S("
    )
    assert [f.where for f in told(tmp_path, {"thing.py": code}, "reward-sync")] == (["thing.py:10"] if found else [])


@pytest.mark.parametrize(("field", "found"), [("Field('', exclude=True)", True), ("Field('', repr=False)", False)])
def test_a_field_that_serialisation_leaves_out_blocks(tmp_path: Path, field: str, found: bool) -> None:
    code = "from pydantic import Field\n" + V1.replace(
        "    answer: str\n", f"    answer: str\n    tests: str = {field}\n"
    )
    assert bool(told(tmp_path, {"thing.py": code}, "task-field-excluded")) is found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (V1.replace("return 1.0", "return float(self.taskset.golds[0] == 1)"), True),
        (V1.replace("        return []", "        global GOLDS\n        GOLDS = {}\n        return []"), True),
        (V1.replace("return 1.0", "return float(self.data.answer == self.config.task)"), False),
        (V1.replace("        return []", "        self.rows = []\n        return []"), False),
    ],
)
def test_state_outside_of_the_task_data_is_a_hint(tmp_path: Path, code: str, found: bool) -> None:
    hints = told(tmp_path, {"thing.py": code}, "task-not-self-contained")
    assert [f.severity for f in hints] == (["warning"] if found else [])


TOOLS = "class Look(vf.Toolset[vf.ToolsetConfig]):\n    pass\n\n\n"
OFFERED = "    @classmethod\n    def toolsets(cls, config):\n        return [Look(config)]\n"


@pytest.mark.parametrize(
    ("attribute", "method", "found"),
    [
        ("    tools = (Look,)\n", "", True),
        ("    tools: tuple = (Look,)\n", "", True),
        ("    tools = (Look,)\n", OFFERED, False),
        ("    tools = ('hammer',)\n", "", False),
        ("", OFFERED, False),
    ],
)
def test_tools_that_only_an_attribute_names_are_never_offered(
    tmp_path: Path, attribute: str, method: str, found: bool
) -> None:
    before, mark, after = V1.partition("class T(")
    head, colon, body = after.partition(":\n")
    code = f"{before}{TOOLS}{mark}{head}{colon}{attribute}{method}{body}"
    blockers = told(tmp_path, {"thing.py": code}, "verifiers-outdated")
    assert [f.severity for f in blockers] == (["blocker"] if found else [])
