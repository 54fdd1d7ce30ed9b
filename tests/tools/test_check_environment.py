"""check_environment through the real worker: what ships passes, what cannot load says why, and how to mend it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.conftest import EXAMPLES, TEMPLATES
from tests.lab.rewards.packages import SOUND, check, codes, reward, write

pytestmark = pytest.mark.anyio


async def test_a_sound_environment_passes_and_says_what_was_loaded(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    outcome = await check(lab, "sound")
    assert (outcome.status, outcome.findings) == ("passed", ())
    assert outcome.data["api"] == "v1"
    assert outcome.data["trainable"] is True
    assert outcome.data["tasks"] == 70
    assert outcome.data["rewards"] == [{"name": "correct", "weight": 1.0}]
    assert outcome.data["verifiers_version"].startswith("0.4")
    assert outcome.next[0].tool == "test_reward"


async def test_what_raises_while_loading_is_a_blocker_with_its_line_and_a_fix(lab: Lab) -> None:
    folder = write(lab, "broken", SOUND)
    path = folder / "broken.py"
    path.write_text(
        path.read_text(encoding="utf-8").replace("import time", "import time\nimport no_such_thing"), "utf-8"
    )
    outcome = await check(lab, "broken")
    finding = next(f for f in outcome.findings if f.code == "environment-does-not-load")
    assert "no_such_thing" in finding.message
    assert finding.where == "broken.py:6"
    assert "dependencies" in finding.fix


async def test_flaws_that_only_loading_shows_block(lab: Lab) -> None:
    bodies = {
        "plain_function": (reward("return sound(reply, gold)", kind="def"), {"reward-sync"}),
        "no_reward": ("    pass\n", {"no-reward"}),
        "weightless": (reward("return sound(reply, gold)", weight=0.0), {"no-reward"}),
    }
    found = {}
    for name, (body, _) in bodies.items():
        write(lab, name, body)
        found[name] = codes(await check(lab, name))
    folder = write(lab, "two_exports", SOUND)
    path = folder / "two_exports.py"
    both = '["Marbles", "More"]\nMore = type("More", (Marbles,), {})'
    path.write_text(path.read_text(encoding="utf-8").replace('["Marbles"]', both), "utf-8")
    found["two_exports"] = codes(await check(lab, "two_exports"))
    assert found == {name: expected for name, (_, expected) in bodies.items()} | {
        "two_exports": {"environment-does-not-load"}
    }


async def test_the_rows_that_an_environment_yields_are_judged(lab: Lab) -> None:
    folder = write(lab, "rows", SOUND)
    path = folder / "rows.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("blue marbles. How", "blue marbles, in all {4 * n + 7}. How"), "utf-8")
    outcome = await check(lab, "rows")
    assert codes(outcome) == {"gold-in-prompt"}


async def test_the_checks_load_with_the_arguments_that_the_package_names(lab: Lab) -> None:
    folder = write(lab, "sized", SOUND)
    pyproject = folder / "pyproject.toml"
    pyproject.write_text(
        pyproject.read_text(encoding="utf-8") + "\n[tool.prime-lab]\ncheck_args = { size = 65 }\n", "utf-8"
    )
    outcome = await check(lab, "sized")
    assert outcome.data["tasks"] == 65
    assert dict(outcome.facts.env_args) == {"size": 65}


async def test_a_package_that_cannot_load_is_not_run(lab: Lab) -> None:
    folder = write(lab, "marker", SOUND)
    (folder / "marker.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\nimport verifiers.api.v1\n", encoding="utf-8"
    )
    outcome = await check(lab, "marker")
    assert "migration" in codes(outcome)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("folder", [TEMPLATES / "numeric", EXAMPLES / "gsm8k"], ids=lambda path: path.name)
async def test_what_the_project_ships_passes_as_written(lab: Lab, folder: Path) -> None:
    shutil.copytree(folder, lab.workspace.environments / folder.name)
    outcome = await check(lab, folder.name)
    assert (outcome.status, codes(outcome)) == ("passed", set())
