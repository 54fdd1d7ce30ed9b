"""Paths and names stay inside the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.state.workspace import Workspace


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
