"""Seeds that are the same for the same files, and that nobody knows beforehand."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.state.sampling_secret import secret_seed


def test_the_same_files_have_the_same_seed_and_others_another(tmp_path: Path) -> None:
    first = secret_seed(tmp_path / "state", "a")
    assert secret_seed(tmp_path / "state", "a") == first
    assert secret_seed(tmp_path / "state", "b") != first
    assert secret_seed(tmp_path / "elsewhere", "a") != first, "another state directory has another secret"


def test_only_its_owner_may_read_the_secret_and_a_broken_one_is_made_anew(tmp_path: Path) -> None:
    first = secret_seed(tmp_path, "a")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"half")
    assert secret_seed(tmp_path, "a") != first
    assert len(file.read_bytes()) == 32
