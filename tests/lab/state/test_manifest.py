"""pyproject.toml is edited at one place and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.state.manifest import next_version, parse_manifest, set_version

TEXT = """# a comment
[project]
name = "e"
version = "0.1.0"  # keep me
dependencies = ["verifiers>=0.4.0,<0.5"]

[tool.ruff]
target-version = "py311"

[tool.other]
version = "9.9.9"
"""


def test_a_version_bump_changes_the_project_version_and_not_one_other_byte(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(TEXT, encoding="utf-8")
    set_version(path, "0.2.0")
    assert path.read_text(encoding="utf-8") == TEXT.replace('version = "0.1.0"', 'version = "0.2.0"')


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace('"0.1.0"', "'0.1.0'"),
        TEXT.replace('version = "0.1.0"', '"version"="0.1.0"'),
        TEXT.replace("[project]", '[project]\ndescription = """\nversion = "0.1.0"\n"""'),
        TEXT.replace("# a comment", '[tool.mypy]\npython_version = "0.1.0"'),
        'project.name = "e"\nproject.version = "0.1.0"\ntool.other.version = "0.1.0"\n',
        'project = { name = "e", version = "0.1.0" }\n',
        TEXT.replace("[project]", '[project.urls]\nversion = "0.1.0"\n[project]'),
    ],
    ids=["crlf", "single-quotes", "quoted-key", "in-a-text", "mypy", "dotted", "inline", "sub-table"],
)
def test_however_the_version_is_written_nothing_else_changes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(text.encode())
    set_version(path, "0.2.0")
    changed = path.read_bytes().decode()
    assert parse_manifest(changed.encode()).version == "0.2.0"
    at = changed.index("0.2.0")
    assert (text[:at], text[at + 5 :]) == (changed[:at], changed[at + 5 :])
    assert changed.count("0.2.0") == 1


def test_a_version_that_is_not_literal_is_refused_and_the_file_kept(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    text = '[project]\nname = "e"\ndynamic = ["version"]\n[tool.other]\nversion = "1"\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="dynamic"):
        set_version(path, "0.2.0")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("current", "bump", "expected"),
    [("0.1.0", "patch", "0.1.1"), ("0.1.9", "minor", "0.2.0"), ("1.2.3", "major", "2.0.0"), ("1", "patch", "1.0.1")],
)
def test_versions_are_raised_by_part(current: str, bump: str, expected: str) -> None:
    assert next_version(current, bump) == expected


def test_a_manifest_knows_its_module_and_its_verifiers_requirement() -> None:
    found = parse_manifest(TEXT.replace('"e"', '"My-Env"').encode())
    assert found.module == "my_env"
    assert str(found.verifiers) == "verifiers<0.5,>=0.4.0"
