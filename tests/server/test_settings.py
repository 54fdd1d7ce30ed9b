"""The settings that a person starts a server with are refused in words where they cannot be used."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import NamedEndpoint
from prime_lab_mcp.server.main import LogFile, open_lab, settings


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder"):
        settings(str(tmp_path / "none"), str(tmp_path / "state"))


def test_a_state_directory_in_the_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="could edit the evidence"):
        settings(str(tmp_path), str(tmp_path / "state"))


def test_a_state_directory_that_may_not_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workspace").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may use every folder
    with pytest.raises(BadInput, match="Permission denied"):
        settings(str(tmp_path / "workspace"), str(tmp_path / "state"))


def test_a_command_to_notify_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with pytest.raises(BadInput):
        settings(str(tmp_path / "workspace"), str(tmp_path / "state"), notify="no-such-command-anywhere")


def test_named_endpoints_are_those_of_the_command_line_and_of_the_state_directory(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    chosen = settings(
        str(tmp_path / "workspace"), str(tmp_path / "state"), endpoints=("mine=http://127.0.0.1:9/v1|MY_KEY",)
    )
    assert chosen.endpoints == (NamedEndpoint("mine", "http://127.0.0.1:9/v1", "MY_KEY"),)
    assert chosen.platform == "prime"


def test_a_rehearsal_starts_no_platform_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    lab = open_lab(settings(str(tmp_path / "workspace"), str(tmp_path / "state"), rehearsal=True))
    assert lab.platform == "rehearsal"
    assert not (tmp_path / "state" / "rehearsal").exists()
    lab.ledger.close()


def test_a_line_of_the_log_that_fails_for_another_reason_than_the_disk_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogFile(tmp_path / "server.log", delay=True)
    log.handle(logging.LogRecord("n", logging.WARNING, "p", 1, "%d files", ("three",), None))
    assert "three" in capsys.readouterr().err
