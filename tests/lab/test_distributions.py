"""What is installed in a Python is read from its folders: requirements, files that differ, start-up files, origins."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from prime_lab_mcp.lab.distributions import (
    STARTUP_FILES,
    local_distributions,
    named_fingerprints,
    read_distributions,
    read_fingerprints,
    requirement_closure,
)

OLD, NEW = (1_000.0, 1_000.0), (3_000.0, 3_000.0)


class Installed:
    """A Python whose distributions a test writes."""

    def __init__(self, root: Path) -> None:
        self.python = root / "bin" / "python"
        self.site = root / "lib" / "python3.11" / "site-packages"
        self.site.mkdir(parents=True)

    def add(
        self, name: str, *requires: str, files: dict[str, str] | None = None, record: str = "", **more: str
    ) -> Path:
        folder = self.site / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        lines = [f"Requires-Dist: {text}" for text in requires]
        metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *lines, ""])
        (folder / "METADATA").write_text(metadata, encoding="utf-8")
        rows = [record]
        for path, text in (files or {}).items():
            (self.site / path).parent.mkdir(parents=True, exist_ok=True)
            (self.site / path).write_text(text, encoding="utf-8")
            os.utime(self.site / path, OLD)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text)}")
        (folder / "RECORD").write_text("\n".join(rows), encoding="utf-8")
        os.utime(folder / "RECORD", (2_000.0, 2_000.0))
        for file, text in more.items():
            (folder / f"{file}.json").write_text(text, encoding="utf-8")
        return folder

    def print_of(self, name: str) -> str | None:
        return named_fingerprints(self.python, [name]).get(name)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_requirements_are_followed_through_extras_and_markers(installed: Installed) -> None:
    installed.add("my-sums", "numbers[fast]", "windows-only; sys_platform == 'win32'", "not a requirement!!", "absent")
    installed.add("numbers", "my-sums", "quick; extra == 'fast'", "slow; extra == 'slow'")
    for name in ("quick", "slow", "windows-only", "other"):
        installed.add(name)
    found = read_distributions(installed.python)
    assert requirement_closure(found, [Requirement("My.Sums")]) == {"my-sums", "numbers", "quick"}
    assert requirement_closure(found, [Requirement("numbers[slow]")]) >= {"slow"}


def test_what_its_metadata_and_record_do_not_say_is_left_out(installed: Installed) -> None:
    installed.add(
        "sums", record="sums/__init__.py,sha256=a,many\nsums/x.pyc,sha256=b,1\nshort,row\nsums/RECORD,,\n1st,,"
    )
    (installed.site / "nameless-1.0.dist-info").mkdir()
    found = read_distributions(installed.python)
    assert list(found) == ["sums"]
    assert [(file.path, file.size) for file in found["sums"].files] == [("sums/__init__.py", None)]
    assert found["sums"].modules == {"sums"}


def test_a_fingerprint_changes_with_each_file_that_differs_and_with_nothing_else(installed: Installed) -> None:
    files = {"sums/__init__.py": "A = 1\n", "sums/more.py": "B = 2\n"}
    folder = installed.add("sums", files=files)
    first, module = installed.print_of("sums"), installed.site / "sums" / "__init__.py"
    os.utime(module, NEW)
    assert installed.print_of("sums") == installed.print_of("sums") == first  # newer, with the same content
    module.write_text("A = 2\n", encoding="utf-8")
    altered = installed.print_of("sums")
    module.unlink()
    missing = installed.print_of("sums")
    module.mkdir()
    unreadable = installed.print_of("sums")
    assert len({first, altered, missing, unreadable}) == 4
    module.rmdir()
    module.write_text("A = 1\n", encoding="utf-8")
    assert installed.print_of("sums") == first
    (folder / "RECORD").unlink()
    assert installed.print_of("sums") != first


def test_start_up_files_have_a_fingerprint_of_their_own(installed: Installed) -> None:
    prints = [named_fingerprints(installed.python, [])[STARTUP_FILES]]
    (installed.site / "a.pth").write_text("import x\n", encoding="utf-8")
    prints.append(named_fingerprints(installed.python, [])[STARTUP_FILES])
    (installed.site / "b.pth").mkdir()
    prints.append(named_fingerprints(installed.python, [])[STARTUP_FILES])
    assert len(set(prints)) == 3


def test_what_is_installed_from_a_folder_of_this_machine_is_found_by_its_origin(installed: Installed) -> None:
    for name, origin in (
        ("local", '{"dir_info": {}}'),
        ("archive", '{"archive_info": {}}'),
        ("odd", "[1]"),
        ("no", "{"),
    ):
        installed.add(name, direct_url=origin)
    wanted = [Requirement(name) for name in ("local", "archive", "odd", "no")]
    assert local_distributions(installed.python, wanted) == ("local",)


def test_the_first_of_two_folders_of_one_name_counts(installed: Installed, tmp_path: Path) -> None:
    installed.add("sums", "first")
    other = Installed(tmp_path / "other")
    other.add("sums", "second")
    (tmp_path / "lib" / "python3.12").mkdir()
    os.rename(other.site, tmp_path / "lib" / "python3.12" / "site-packages")
    assert read_distributions(installed.python)["sums"].requires == ("first",)


def test_the_distributions_of_this_python_are_those_on_its_search_path() -> None:
    prints = read_fingerprints(Path(sys.executable), [Requirement("packaging")])
    assert set(prints.by_name) == {"packaging", STARTUP_FILES}
    assert prints.digest != read_fingerprints(Path(sys.executable), [Requirement("anyio")]).digest
