"""The lineage is kept in one file that is never destroyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs.registry import Entry, add, load
from prime_lab_mcp.lab.errors import BadInput


def entry(version: int, name: str = "tiny") -> Entry:
    return Entry(name, version, f"configs/rl/{name}.toml", "2026-11-21", "m", "hosted", ("a/b@1",), "0" * 64)


def test_the_newest_version_of_a_name_is_the_active_one(tmp_path: Path) -> None:
    path = tmp_path / "configs" / "registry.json"
    for one in (entry(1), entry(1, "other"), entry(2)):
        add(path, one)
    assert [(e.name, e.version, e.active) for e in load(path)] == [
        ("tiny", 1, False), ("other", 1, True), ("tiny", 2, True),
    ]  # fmt: skip


def test_no_registry_is_an_empty_one(tmp_path: Path) -> None:
    assert load(tmp_path / "registry.json") == ()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"schema": 2, "configs": []}', '{"schema": 1, "configs": [{}]}', '{"schema": 1, "configs": [3]}',
     '{"schema": 1, "configs": [{"environments": []}]}', "[" * 100_000],
)  # fmt: skip
def test_an_unreadable_registry_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "registry.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        add(path, entry(1))
    assert caught.value.code == "config-registry-unreadable"
    assert path.read_text(encoding="utf-8") == text


def test_writing_leaves_nothing_but_the_registry_behind(tmp_path: Path) -> None:
    add(tmp_path / "registry.json", entry(1))
    assert [p.name for p in tmp_path.iterdir()] == ["registry.json"]
    assert json.loads((tmp_path / "registry.json").read_text(encoding="utf-8"))["schema"] == 1
