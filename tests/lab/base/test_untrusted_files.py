"""Files of folders that confined code writes are opened below their folder, in a fair size, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base import untrusted_files
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath, copy_below, read_below, replace_below


@pytest.mark.parametrize("path", ["", "..", "a/..", "../a", "/a", "a\0/b"])
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(PlantedPath):
        replace_below(tmp_path, path, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_at_the_place_of_a_file_is_refused_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(PlantedPath, match="no file"):
        replace_below(tmp_path, "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_is_copied_and_read_up_to_its_limit(tmp_path: Path) -> None:
    replace_below(tmp_path, "a/b", b"1234")
    copy_below(tmp_path, "a/b", tmp_path / "copy", 4)
    assert (tmp_path / "copy").read_bytes() == read_below(tmp_path, "a/b", 4) == b"1234"
    for act in (lambda: copy_below(tmp_path, "a/b", tmp_path / "other", 3), lambda: read_below(tmp_path, "a/b", 3)):
        with pytest.raises(PlantedPath, match="larger than 3 bytes"):
            act()


def test_a_file_that_grows_while_it_is_copied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_below(tmp_path, "a", b"1234")
    stat = untrusted_files.os.fstat

    def before(descriptor: int) -> object:
        found = stat(descriptor)
        with (tmp_path / "a").open("ab") as file:
            file.write(b"5")
        return found

    monkeypatch.setattr(untrusted_files.os, "fstat", before)
    with pytest.raises(PlantedPath, match="larger than 5 bytes"):
        copy_below(tmp_path, "a", tmp_path / "copy", 5)


def test_a_replacement_that_fails_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    replace_below(tmp_path, "a", b"old")
    monkeypatch.setattr(untrusted_files.os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        replace_below(tmp_path, "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]
