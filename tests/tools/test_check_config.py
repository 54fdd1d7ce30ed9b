"""What a check asks beyond its rules: the platform's schema, prime's parser, the environments' classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs import older_platforms
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import ValidateAnswer
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.outcome import Outcome
from tests.lab.configs.examples import SHARED_LORA, SOUND
from tests.tools.test_training_config import PINNED, Platform, check, codes, platform, pushed, put, write

__all__ = ["platform"]
pytestmark = pytest.mark.anyio
NEWER = SOUND.replace("group_size = 16\n", "group_size = 16\nnewer_key = 1\n")
SHAPE = {"type": "object", "additionalProperties": False, "properties": {"id": {}, "split": {"type": "string"}}}


def checked_environment(lab: Lab, source: str, **data: Any) -> None:
    lab.ledger.record(
        Evidence("check_environment", "passed", lab.key, environment="tiny_env", source=source, content="c", data=data)
    )


async def answered(lab: Lab, platform: Platform, outcome: Any, commit: str | None = None, text: str = SOUND) -> Outcome:
    platform.answer = ValidateAnswer(outcome, ("trainer: what it said",) if outcome != "valid" else (), commit)
    return await check(lab, put(lab, "c.toml", text))


async def test_each_answer_of_the_platform_reads_differently(lab: Lab, platform: Platform) -> None:
    outcomes = [await answered(lab, platform, o) for o in ("valid", "invalid", "not-offered", "unavailable")]
    assert [o.data["validation"] for o in outcomes] == ["valid", "invalid", "not-offered", "unavailable"]
    assert [o.status for o in outcomes] == ["passed", "failed", "passed", "inconclusive"]
    assert len({o.summary for o in outcomes}) == 4
    for outcome, words in zip(outcomes, ("accepts", "refuses", "offers no", "could not be asked"), strict=True):
        assert words in outcome.summary


async def test_another_commit_of_the_schema_is_said(lab: Lab, platform: Platform) -> None:
    assert "config-schema-newer" in codes(await answered(lab, platform, "valid", "f" * 40), "info")
    for commit in (SCHEMA_COMMIT, None):
        assert "config-schema-newer" not in codes(await answered(lab, platform, "valid", commit), "info")


async def test_a_key_that_only_the_platform_knows_is_no_blocker(lab: Lab, platform: Platform) -> None:
    accepted = await answered(lab, platform, "valid", "f" * 40, NEWER)
    assert (accepted.status, codes(accepted, "warning")) == (
        "passed",
        {"config-unknown-key", "config-taskset-unchecked", "config-unproven-setting"},
    )
    for outcome, commit in (
        ("valid", SCHEMA_COMMIT),
        ("invalid", "f" * 40),
        ("unavailable", None),
        ("not-offered", None),
    ):
        refused = await answered(lab, platform, outcome, commit, NEWER)
        assert refused.status == "failed"
        assert "config-unknown-key" in codes(refused)
        assert "config-validation-unavailable" not in codes(refused)


async def test_a_key_of_a_source_is_not_asked_of_a_platform_that_does_not_look(lab: Lab, platform: Platform) -> None:
    checked = await answered(lab, platform, "valid", "f" * 40, SOUND.replace('name = "tiny"', 'name = "tiny"\nx = 1'))
    assert (checked.status, platform.asked) == ("failed", [])
    assert "not asked" in checked.summary


async def test_keys_of_a_taskset_are_judged_by_what_its_check_recorded(lab: Lab, platform: Platform) -> None:
    typo = SOUND.replace('split = "eval"', 'splt = "eval"')
    assert "config-taskset-unchecked" in codes(await answered(lab, platform, "valid", text=typo), "warning")
    pushed(lab)
    checked_environment(lab, "s")
    assert "config-taskset-unchecked" in codes(await answered(lab, platform, "valid", text=typo), "warning")
    checked_environment(lab, "s", shapes={"taskset": SHAPE, "env": None, "tools": False})
    checked_environment(lab, "later", shapes={"taskset": {}, "env": None, "tools": False})
    checked = await answered(lab, platform, "valid", text=typo)
    assert codes(checked) == {"config-unknown-taskset-key"}
    assert "config-taskset-unchecked" not in codes(checked, "warning")
    assert codes(await answered(lab, platform, "valid")) == set()


async def test_keys_that_the_taskset_does_not_take_are_refused_before_anything_is_written(
    lab: Lab, platform: Platform
) -> None:
    pushed(lab)
    checked_environment(lab, "s", shapes={"taskset": SHAPE, "env": None, "tools": False})
    for given in ({"env_args": {"splt": "eval"}}, {"eval": {"splt": "eval"}}):
        with pytest.raises(BadInput) as refused:
            await write(lab, environments=[PINNED], **given)
        assert (refused.value.code, '"split"' in refused.value.fix) == ("config-unknown-taskset-key", True)
    assert not list((lab.workspace.root / "configs").glob("rl/*.toml"))
    assert (await write(lab, environments=[PINNED], env_args={"split": "eval"})).status == "passed"


async def test_a_migrated_file_with_such_a_key_says_where_it_stands(lab: Lab, platform: Platform) -> None:
    pushed(lab)
    checked_environment(lab, "s", shapes={"taskset": SHAPE, "env": None, "tools": False})
    put(lab, "old.toml", SOUND.replace('split = "eval"', 'splt = "eval"'))
    with pytest.raises(BadInput) as refused:
        await write(lab, based_on="old.toml")
    assert "old.toml" in refused.value.fix
    assert (await write(lab, based_on="old.toml", environments=[PINNED])).status == "passed"


async def test_a_migration_that_changes_the_algorithm_says_so(lab: Lab, platform: Platform) -> None:
    put(lab, "old.toml", 'loss = "opd"\n' + SHARED_LORA)
    written = await write(lab, based_on="old.toml")
    found = {f.where: f for f in written.findings if f.code == "migration-meaning"}
    assert "opd" in str(found["loss"].fix)
    assert "sampling.enable_thinking" in found


async def test_prime_s_own_parser_is_asked_where_the_server_has_none(
    lab: Lab, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("toml")
    monkeypatch.setitem(sys.modules, "toml", None)
    mixed = SOUND.replace('split = "eval"', 'split = "eval"\nlevels = [1, "b"]')
    prime = Path(sys.executable).with_name("prime")
    monkeypatch.setattr(type(lab.toolchain), "programs", lambda self, name: (prime,))
    assert "config-toml-dialect" in codes(await answered(lab, platform, "valid", text=mixed))
    assert "config-toml-unchecked" not in codes(await answered(lab, platform, "valid"), "info")
    monkeypatch.setattr(type(lab.toolchain), "programs", lambda self, name: (lab.workspace.root / "prime",))
    assert "config-toml-unchecked" in codes(await answered(lab, platform, "valid"), "info")


def test_both_readings_are_alike(tmp_path: Path) -> None:
    pytest.importorskip("toml")
    reading = older_platforms.old_reading_here(SOUND)
    assert reading is not None
    assert reading.table == parse_config(SOUND, tmp_path / "c.toml").table
