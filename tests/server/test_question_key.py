"""The key of questions: one for a state directory, readable by its user only."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prime_lab_mcp.lab.state.secret_file import BYTES
from prime_lab_mcp.server.question_key import NAME, question_security


def unsealed(by: Path, sealed: str) -> bytes:
    return question_security(by).codec.unseal(sealed)


def test_all_who_start_at_the_same_time_share_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as starters:
        sealed = list(starters.map(lambda _: question_security(tmp_path).codec.seal(b"words"), range(8)))
    assert [unsealed(tmp_path, one) for one in sealed] == [b"words"] * 8
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_key_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"short")
    assert unsealed(tmp_path, question_security(tmp_path).codec.seal(b"words")) == b"words"
    assert len((tmp_path / NAME).read_bytes()) == BYTES


def test_where_no_key_can_be_kept_questions_are_sealed_all_the_same(tmp_path: Path) -> None:
    security = question_security(tmp_path / "is not there")
    assert security.codec.unseal(security.codec.seal(b"words")) == b"words"


def test_a_key_that_another_server_cut_short_at_the_same_time_stops_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda _, path: path.write_bytes(b"short"))
    security = question_security(tmp_path)
    assert security.codec.unseal(security.codec.seal(b"words")) == b"words"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_key_that_cannot_be_read_stops_no_server(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"k" * BYTES)
    (tmp_path / NAME).chmod(0)
    security = question_security(tmp_path)
    assert security.codec.unseal(security.codec.seal(b"words")) == b"words"
