"""What is read of a wheel: the same files, whether the wheel was built here or fetched from the Hub."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from prime_lab_mcp.lab.environment import wheel_archive
from prime_lab_mcp.lab.environment.wheel_archive import UnreadableWheel, unpack_wheel, wheel_files

MEMBERS = {
    "sums/__init__.py": b"1",
    "sums-1.data/purelib/sums/reward.py": b"2",
    "sums-1.data/data/share/sums/rows.json": b"3",
    "sums-1.dist-info/METADATA": b"4",
}


def wheel(folder: Path, members: dict[str, bytes] = MEMBERS) -> Path:
    place = folder / "sums-1-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return place


def test_the_files_of_a_wheel_are_named_as_they_are_installed_and_include_its_data_files(tmp_path: Path) -> None:
    files = wheel_files(wheel(tmp_path))
    assert set(files) == {"sums/__init__.py", "sums/reward.py", "sums-1.data/data/share/sums/rows.json"}
    assert files["sums/reward.py"] == hashlib.sha256(b"2").hexdigest()


def test_an_unpacked_wheel_has_the_files_that_the_archive_lists(tmp_path: Path) -> None:
    place, tree = wheel(tmp_path), tmp_path / "tree"
    unpack_wheel(place, tree)
    paths = {p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file()}
    assert {p for p in paths if wheel_archive.installed_path(p) is not None} == set(wheel_files(place))


@pytest.mark.parametrize("members", [{"a": b"", "a/b": b""}, None])
def test_an_archive_that_cannot_be_unpacked_is_refused(tmp_path: Path, members: dict[str, bytes] | None) -> None:
    place = wheel(tmp_path, members or {})
    if members is None:
        place.write_bytes(b"no archive")
    with pytest.raises(UnreadableWheel):
        unpack_wheel(place, tmp_path / "tree")


def test_a_wheel_is_bounded_in_bytes_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_archive, "MAX_WHEEL_FILES", 3)
    for read in (wheel_files, lambda place: unpack_wheel(place, tmp_path / "tree")):
        with pytest.raises(UnreadableWheel, match="3 files"):
            read(wheel(tmp_path))
