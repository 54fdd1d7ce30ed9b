"""pyproject.toml is edited at one place and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.state.manifest import Manifest, next_version, parse_manifest, set_version, write_atomic

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


def test_a_requirement_that_cannot_be_read_hides_no_other() -> None:
    found = parse_manifest(b'[project]\ndependencies = ["???", "verifiers>=0.4"]\n')
    assert str(found.verifiers) == "verifiers>=0.4"
    assert parse_manifest(b'[project]\ndependencies = ["???"]\n').verifiers is None


@pytest.mark.parametrize("stated", ['"./README.md"', '{ file = "README.md", content-type = "text/markdown" }'])
def test_the_readme_is_the_file_that_the_project_names(stated: str) -> None:
    assert parse_manifest(f"[project]\nreadme = {stated}\n".encode()).readme == "README.md"


def test_what_the_source_covers_of_a_manifest_lacks_its_version_alone() -> None:
    assert parse_manifest(TEXT.encode()).sourced()["project"].keys() == {"name", "dependencies"}
    assert parse_manifest(b"[tool.x]\ny = 1\n").sourced() == {"tool": {"x": {"y": 1}}}


def test_a_version_that_is_none_cannot_be_raised() -> None:
    with pytest.raises(BadInput, match="PEP 440"):
        next_version("latest", "patch")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("name = [", "pyproject-invalid"),
        ('[project]\nname = "e"\n', "no-version"),
        ('[project]\n"versio\\u006e" = "0.1.0"\n[tool.other]\nversion = "1"\n', "no-version"),
    ],
    ids=["broken", "missing", "escaped"],
)
def test_a_version_that_cannot_be_changed_alone_is_refused_with_the_reason(
    tmp_path: Path, text: str, code: str
) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        set_version(path, "0.2.0")
    assert caught.value.code == code
    assert path.read_text(encoding="utf-8") == text


def test_a_file_whose_replacement_fails_stays_as_it_was_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "half of a pair: \ud800")
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [("a.toml", "old")]


def test_a_manifest_without_a_project_has_no_name() -> None:
    assert (Manifest().name, Manifest().version, Manifest().module, Manifest().requirements) == (None, None, None, ())
