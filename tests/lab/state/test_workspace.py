"""Paths and names stay inside the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.state.workspace import MAX_FILE_BYTES, Workspace, read_text, resolve_inside


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "w"
    (root / "environments" / "my_env").mkdir(parents=True)
    (root / "environments" / "my_env" / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (root / "environments" / "sneaky").symlink_to(tmp_path / "outside")
    return Workspace(root.resolve())


@pytest.mark.parametrize("name", ["my_env", "my-env", "environments/my_env", "environments/../environments/my_env"])
def test_an_environment_is_found_by_name_or_path(workspace: Workspace, name: str) -> None:
    assert workspace.environment(name).relative == "environments/my_env"


@pytest.mark.parametrize(
    "path", ["../outside", "/etc", "environments/sneaky/x", "environments/../../outside", "a\0b", " "]
)
def test_paths_that_lead_outside_are_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(BadInput):
        workspace.resolve(path)


@pytest.mark.parametrize("name", ["nope", ".", "sneaky", ""])
def test_what_is_no_environment_of_the_workspace_is_refused(workspace: Workspace, name: str) -> None:
    with pytest.raises(BadInput):
        workspace.environment(name)


@pytest.mark.parametrize("name", ["my-env", "1abc", "a b", "../x", "a/b", ""])
def test_a_new_environment_needs_a_fit_and_free_name(workspace: Workspace, name: str) -> None:
    with pytest.raises(BadInput):
        workspace.new_environment(name)


def test_a_path_that_must_exist_is_refused_where_nothing_is(workspace: Workspace) -> None:
    with pytest.raises(BadInput) as caught:
        workspace.resolve("configs/none.toml", must_exist=True)
    assert caught.value.code == "not-found"


def test_a_workspace_without_environments_has_none_of_any_name(tmp_path: Path) -> None:
    assert Workspace(tmp_path).similar_names("sums") == []


def test_a_workspace_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Workspace(tmp_path / "gone").list_environments()
    assert caught.value.code == "workspace-missing"


@pytest.mark.parametrize("path", ["../outside", "/etc", "a\0b", " ", "a\\b", ".", "sneaky/x"])
def test_a_file_of_an_environment_lies_in_its_folder(workspace: Workspace, path: str) -> None:
    folder = workspace.environments / "my_env"
    (folder / "sneaky").symlink_to(workspace.root)
    with pytest.raises(BadInput) as caught:
        resolve_inside(folder, path)
    assert caught.value.code == "outside-environment"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xff", "not-text"),
        (b"a\0b", "not-text"),
        (b" " * (MAX_FILE_BYTES + 1), "file-too-big"),
        (None, "unreadable-file"),
    ],
    ids=["other encoding", "nul", "large", "missing"],
)
def test_only_text_of_a_fair_size_is_read(tmp_path: Path, content: bytes | None, code: str) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_text(tmp_path / "a")
    assert caught.value.code == code


def test_text_is_read_with_its_line_endings(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("é\r\n".encode())
    assert read_text(tmp_path / "a") == "é\r\n"


def test_a_port_has_a_name_of_its_own(workspace: Workspace) -> None:
    assert not workspace.has_port("older/sums")
    assert workspace.free_port_name("older/sums") == "sums-v1"
    for taken, free in (("sums_v1", "sums-v1-2"), ("sums_v1_2", "sums-v1-3")):
        (workspace.environments / taken).mkdir()
        assert workspace.free_port_name("older/sums") == free
    assert workspace.has_port("older/sums")


def test_packages_beside_the_environments_that_load_as_v0_are_older_ones(workspace: Workspace) -> None:
    code = "import verifiers as vf\n\n\ndef load_environment():\n    pass\n"
    sources = {"sums": code, "newer": f"import verifiers.v1\n{code}", "plain": "x = 1\n", "-odd": code}
    for name, text in sources.items():
        (workspace.root / name).mkdir()
        (workspace.root / name / "pyproject.toml").write_text("", encoding="utf-8")
        (workspace.root / name / "main.py").write_text(text, encoding="utf-8")
    (workspace.root / "dangling").mkdir()
    (workspace.root / "dangling" / "pyproject.toml").write_text("", encoding="utf-8")
    (workspace.root / "dangling" / "main.py").symlink_to(workspace.root / "nowhere.py")
    assert workspace.older_packages() == ["sums"]
