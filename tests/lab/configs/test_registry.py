"""The lineage is kept in one file that is never destroyed, whoever writes and however many at once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.configs.registry import (
    RegistryEntry,
    add_entry,
    config_hardware,
    drift_finding,
    load_registry,
    locked_registry,
    run_parameters,
)
from tests.lab.configs.examples import SOUND

SEED = {
    "active_configs": {"qwen3-8b-2xh100": "configs/prime-rl/qwen3-8b-2xh100.toml:v2"},
    "configs": {
        "configs/prime-rl/qwen3-8b-2xh100.toml": {
            "model": "Qwen/Qwen3-8B",
            "hardware": "2x H100",
            "current_version": "v2",
            "versions": {
                "v1": {"created": "2026-01-04", "notes": "Initial config"},
                "v2": {"created": "2026-01-05", "notes": "Speed optimizations"},
            },
        }
    },
}
"""The registry of the instructions that the project started from, word for word."""


def entry(version: int, name: str = "tiny") -> RegistryEntry:
    return RegistryEntry(name, version, f"configs/rl/{name}.toml", "2026-11-21", "m", "hosted", ("a/b@1",), "0" * 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "configs" / "registry.json"


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_the_newest_version_of_a_name_is_the_active_one(path: Path) -> None:
    for one in (entry(1), entry(1, "other"), entry(2)):
        add_entry(path, one)
    assert [(e.name, e.version, e.active) for e in load_registry(path)] == [
        ("tiny", 1, False),
        ("other", 1, True),
        ("tiny", 2, True),
    ]


def test_an_older_file_that_is_only_entered_takes_no_place(path: Path) -> None:
    for one in (entry(2), replace(entry(1), active=False)):
        add_entry(path, one)
    assert [(e.version, e.active) for e in load_registry(path)] == [(2, True), (1, False)]


def test_everything_an_entry_says_comes_back(path: Path) -> None:
    full = replace(
        entry(3),
        based_on="old.toml",
        notes="why",
        environment_versions={"a/b": "1"},
        hardware="2x H200_141GB",
        label="v3-final",
        parameters={"max_steps": 5, "x": ["y"]},
        other_fields={"owner": "somebody"},
    )
    add_entry(path, full)
    assert load_registry(path) == (full,)


def test_no_registry_is_an_empty_one(path: Path) -> None:
    assert load_registry(path) == ()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": 2, "configs": []}',
        '{"schema": 1, "configs": [{}]}',
        '{"schema": 1, "configs": [3]}',
        '{"schema": 1, "configs": [{"environments": []}]}',
        "[" * 100_000,
        '{"configs": {"a.toml": 3}}',
        '{"schema": 1, "configs": {}}',
        '{"schema": 1, "configs": [{"environments": [], "version": "1"}]}',
    ],
)
def test_an_unreadable_registry_is_refused_and_left_as_it_is(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        add_entry(path, entry(1))
    assert caught.value.code == "config-registry-unreadable"
    assert path.read_text(encoding="utf-8") == text


def test_writing_leaves_nothing_but_the_registry_behind(path: Path) -> None:
    add_entry(path, entry(1))
    assert [p.name for p in path.parent.iterdir()] == ["registry.json"]
    assert [p.name for p in path.parent.parent.iterdir()] == ["configs"]
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 1


# The shape of older instructions


def test_the_registry_of_the_seed_is_taken_over_whole(path: Path) -> None:
    put(path, SEED)
    first, second = load_registry(path)
    assert (first.name, first.version, first.created, first.notes, first.active) == (
        "qwen3-8b-2xh100",
        1,
        "2026-01-04",
        "Initial config",
        False,
    )
    assert (second.version, second.active, second.model, second.hardware) == (2, True, "Qwen/Qwen3-8B", "2x H100")
    assert second.path == "configs/prime-rl/qwen3-8b-2xh100.toml"


def test_taking_over_happens_once_and_loses_nothing(path: Path) -> None:
    extra = json.loads(json.dumps(SEED))
    extra["team"] = "rl"
    extra["active_configs"]["gone"] = "configs/gone.toml:v9"
    config = extra["configs"]["configs/prime-rl/qwen3-8b-2xh100.toml"]
    config["owner"] = "somebody"
    config["versions"]["v2"]["loss"] = 0.3
    config["versions"]["v2.1"] = {"created": "2026-01-06", "notes": "a half step"}
    extra["configs"]["configs/bare.toml"] = {"model": "m", "current_version": "v4"}
    put(path, extra)
    before = load_registry(path)
    add_entry(path, entry(1))
    assert load_registry(path) == (*before, entry(1))
    text = path.read_text(encoding="utf-8")
    for said in ("rl", "configs/gone.toml:v9", "somebody", "0.3", "a half step", "v2.1", "v4", "Initial config"):
        assert said in text
    assert json.loads(text)["schema"] == 1
    assert len({(e.name, e.version) for e in before}) == len(before)


def test_a_version_that_an_older_registry_has_is_not_given_again(path: Path) -> None:
    put(path, SEED)
    with locked_registry(path) as held:
        assert held.is_taken("qwen3-8b-2xh100", 2, "configs/rl/qwen3-8b-2xh100-v2.toml")
        assert not held.is_taken("qwen3-8b-2xh100", 3, "configs/rl/qwen3-8b-2xh100-v3.toml")


# Several writers

WRITER = """
import sys
from pathlib import Path
from prime_lab_mcp.lab.configs.registry import RegistryEntry as Entry, add_entry as add
for n in range(20):
    add(Path(sys.argv[1]), Entry(sys.argv[2], n + 1, "p", "d", "m", "hosted", (), ""))
"""


def test_writers_in_several_processes_lose_no_entry(path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("one", "two")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert sorted((e.name, e.version) for e in load_registry(path)) == sorted(
        (name, version + 1) for name in ("one", "two") for version in range(20)
    )
    assert [e.version for e in load_registry(path) if e.active] == [20, 20]


def test_a_writer_that_never_ends_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prime_lab_mcp.lab.configs.registry._WAIT", 0.05)
    with locked_registry(path), pytest.raises(BadInput) as caught:
        add_entry(path, entry(1))
    assert caught.value.code == "config-registry-busy"
    assert caught.value.fix


# Values changed by hand


def registered(path: Path, text: str = SOUND, version: int = 1) -> tuple[Path, TrainingConfig]:
    file = path.parent / "rl" / "sound.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    config = read_config(file)
    one = RegistryEntry(
        "sound",
        version,
        "configs/rl/sound.toml",
        "d",
        config.model,
        "hosted",
        (),
        config.sha256,
        parameters=run_parameters(config.table),
    )
    add_entry(path, one)
    return file, config


def changed(file: Path, old: str, new: str) -> TrainingConfig:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return read_config(file)


def test_a_value_changed_by_hand_is_named_with_what_it_was(path: Path) -> None:
    file, config = registered(path)
    assert drift_finding(path, config) is None
    finding = drift_finding(path, changed(file, "max_steps = 100", "max_steps = 900"))
    assert finding is not None
    assert (finding.code, finding.severity) == ("config-changed-without-version", "warning")
    assert finding.rows == ({"key": "max_steps", "registered": 100, "now": 900},)
    assert "based_on" in finding.fix


def test_a_key_added_or_removed_by_hand_counts(path: Path) -> None:
    file, _ = registered(path)
    finding = drift_finding(path, changed(file, "[trainer.model.lora]\nrank = 16\n", "[trainer.model.ac]\nfreq = 1\n"))
    assert finding is not None
    assert {row["key"] for row in finding.rows} == {"trainer.model.lora.rank", "trainer.model.ac.freq"}


@pytest.mark.parametrize(("old", "new"), [("max_steps = 100", "# more\nmax_steps  =  100 # ok"), ("\n\n", "\n\n\n")])
def test_comments_and_spaces_are_free(path: Path, old: str, new: str) -> None:
    file, _ = registered(path)
    assert drift_finding(path, changed(file, old, new)) is None


def test_a_person_who_counts_the_version_on_is_not_warned(path: Path) -> None:
    file, _ = registered(path, "# version: 1\n" + SOUND)
    changed(file, "max_steps = 100", "max_steps = 900")
    assert drift_finding(path, changed(file, "# version: 1", "# version: 2")) is None


def test_a_file_that_nobody_registered_does_not_drift(path: Path, tmp_path: Path) -> None:
    _, config = registered(path)
    assert drift_finding(path, replace(config, path=tmp_path / "elsewhere.toml", sha256="x")) is None
    assert drift_finding(path, replace(config, path=Path("/elsewhere.toml"), sha256="x")) is None
    path.write_text("{", encoding="utf-8")
    assert drift_finding(path, config) is None


def test_an_entry_without_parameters_accuses_nobody(path: Path) -> None:
    file, config = registered(path)
    rows = json.loads(path.read_text(encoding="utf-8"))
    del rows["configs"][0]["parameters"]
    put(path, rows)
    assert drift_finding(path, changed(file, "max_steps = 100", "max_steps = 900")) is None
    assert config_hardware(config) == "2x GPU"
