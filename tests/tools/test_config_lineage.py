"""Versions, headers, registry and comments of configs, as an agent meets them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.configs.examples import SEED_HEADER, SEED_SELF_MANAGED
from tests.lab.configs.test_registry import SEED
from tests.tools.test_training_config import PINNED, Platform, check, codes, put, write

pytestmark = pytest.mark.anyio
OLD = "configs/prime-rl/qwen3-8b-2xh100.toml"


@pytest.fixture
def platform(lab: Lab) -> Platform:
    found = Platform()
    lab.__dict__["prime"] = found
    return found


def entries(lab: Lab) -> list[dict[str, Any]]:
    text = lab.workspace.resolve("configs/registry.json").read_text(encoding="utf-8")
    return list(json.loads(text)["configs"])


async def test_a_file_with_a_header_goes_on_from_its_version(lab: Lab, platform: Platform) -> None:
    put(lab, OLD, SEED_HEADER + SEED_SELF_MANAGED)
    written = await write(lab, based_on=OLD, target="self-managed")
    assert (written.data["path"], written.data["version"]) == ("configs/rl/qwen3-8b-2xh100-v3.toml", 3)
    text = lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8")
    assert "# earlier: version v2, created 2026-01-05, env_version 0.1.1, based_on qwen3-8b-2xh100.toml:v1\n" in text
    assert "# earlier notes: Speed optimizations: reduced max_tokens, rollouts, added prefix caching\n" in text
    old, new = entries(lab)
    assert (old["version"], old["created"], old["active"], old["path"]) == (2, "2026-01-05", False, OLD)
    assert old["environment_versions"] == {"seconds-0/beautiful-soup-env": "0.1.1"}
    assert (new["version"], new["based_on"], new["active"], new["hardware"]) == (3, OLD, True, "2x GPU")
    assert "kept" in written.data
    assert {c["key"] for c in written.data["changes"]} >= {"config.max_steps", "orchestrator.lora_name"}


async def test_a_registry_of_the_older_shape_is_continued(lab: Lab, platform: Platform) -> None:
    put(lab, "configs/registry.json", json.dumps(SEED))
    put(lab, OLD, SEED_SELF_MANAGED)
    written = await write(lab, based_on=OLD, target="self-managed")
    assert written.data["path"] == "configs/rl/qwen3-8b-2xh100-v3.toml"
    assert [(e["version"], e["active"]) for e in entries(lab)] == [(1, False), (2, False), (3, True)]
    assert entries(lab)[1]["notes"] == "Speed optimizations"


async def test_the_registry_holds_what_a_run_is_reproduced_from(lab: Lab, platform: Platform) -> None:
    await write(lab, environments=[PINNED], gpu_type="H200_141GB", gpus=2)
    (entry,) = entries(lab)
    assert entry["environment_versions"] == {"alice/tiny-env": "0.1.0"}
    assert entry["hardware"] == "2x H200_141GB"
    assert entry["parameters"]["max_steps"] == 200


async def test_a_value_changed_by_hand_is_warned_about_until_it_has_a_version(lab: Lab, platform: Platform) -> None:
    platform.hub["alice/tiny-env"] = {"latest_version": {"semantic_version": "0.1.0"}, "runtime": "VERIFIERS_V1"}
    written = await write(lab, environments=[PINNED])
    path = lab.workspace.resolve(written.data["path"])
    text = path.read_text(encoding="utf-8").replace("max_steps = 200  # ", "max_steps = 900  # my word: ")
    path.write_text("# Mine.\n" + text, encoding="utf-8")
    checked = await check(lab, written.data["path"])
    assert "config-changed-without-version" in codes(checked, "warning")
    again = await write(lab, based_on=written.data["path"])
    assert "config-changed-without-version" in codes(again, "warning")
    new = lab.workspace.resolve(again.data["path"]).read_text(encoding="utf-8")
    assert again.data["path"] == "configs/rl/tiny-env-v2.toml"
    assert "# Mine.\n" in new
    assert "max_steps = 900  # my word: " in new
    assert "config-changed-without-version" not in codes(await check(lab, again.data["path"]), "warning")
