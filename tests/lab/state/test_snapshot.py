"""Snapshots hold exactly what the installed CLI would push, and their fingerprints move with the right edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.state import snapshot as snapshots
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

PYPROJECT = """[project]
name = "my-env"
version = "0.1.0"
description = "An environment"
readme = "README.md"
dependencies = ["verifiers>=0.4.0,<0.5"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "my_env"
    for path, text in {
        "pyproject.toml": PYPROJECT,
        "README.md": "# my-env\n",
        "top.py": "x = 1\n",
        "data.json": "[]",
        "LICENSE": "free",
        ".hidden": "h",
        ".gitignore": "secret/\n*.log\n!keep.log\n",
        "my_env/__init__.py": "",
        "my_env/data/train.jsonl": '{"a": 1}\n',
        "my_env/notes.log": "log",
        "my_env/.DS_Store": "x",
        "my_env/__pycache__/a.pyc": "x",
        "my_env/dist/a.py": "x",
        "secret/key.py": "x",
        "outputs/evals/results.jsonl": "x",
        "build/lib.py": "x",
        "thing.egg-info/PKG": "x",
        "a/b/c/deep.txt": "deep",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    (root / "my_env" / "link.py").symlink_to(root / "top.py")
    return root


def taken(folder: Path) -> Snapshot:
    return take_snapshot(EnvironmentFolder(folder.name, folder, folder.name), folder.parent / "store")


def test_a_data_file_that_the_wheel_includes_by_name_is_part_of_the_push(folder: Path) -> None:
    """`prime env push` builds the wheel in the folder, so hatchling's include finds the file there."""
    before = taken(folder)
    include = '[tool.hatch.build]\ninclude = ["top.py", "data.*"]\n'
    (folder / "pyproject.toml").write_text(PYPROJECT + include, encoding="utf-8")
    after = taken(folder)

    assert after.files.keys() - before.files.keys() == {"data.json"}
    (folder / "data.json").write_text("[1]", encoding="utf-8")
    assert taken(folder).source != after.source
    assert taken(folder).cli_hash == after.cli_hash  # the archive has no such file, so prime does not hash it


def test_a_snapshot_holds_the_files_that_the_installed_cli_archives(folder: Path) -> None:
    env = pytest.importorskip("prime_cli.commands.env")
    theirs = [p.relative_to(folder).as_posix() for p in env._collect_archive_files(folder)]
    assert sorted(taken(folder).files) == sorted(theirs)


def test_the_cli_hash_is_the_one_the_installed_cli_computes(folder: Path) -> None:
    env = pytest.importorskip("prime_cli.commands.env")
    assert taken(folder).cli_hash == env.compute_content_hash(folder)


def test_two_trees_that_share_the_cli_hash_differ_in_ours(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    contents = {"a.py": b"1file:b.py2"}, {"a.py": b"1", "b.py": b"2"}
    assert snapshots.cli_hash(contents[0]) == snapshots.cli_hash(contents[1])
    prints = []
    for number, files in enumerate(contents):
        root = other / str(number)
        root.mkdir(parents=True)
        for name, data in files.items():
            (root / name).write_bytes(data)
        prints.append(take_snapshot(EnvironmentFolder("e", root, "e"), tmp_path / "s").content)
    assert prints[0] != prints[1]


def test_files_the_push_leaves_out_are_named_with_the_reason(folder: Path) -> None:
    left = {item.path: item.why for item in taken(folder).left_out}
    assert "top level" in left["data.json"]
    assert "symbolic" in left["my_env/link.py"]
    assert ".gitignore" in left["my_env/notes.log"]
    assert "outputs/" in left


@pytest.mark.parametrize(
    ("path", "old", "new", "moves_source"),
    [
        ("README.md", "# my-env", "# My env", False),
        ("pyproject.toml", '"0.1.0"', '"0.2.0"', False),
        ("pyproject.toml", "An environment", "Another", True),
        ("pyproject.toml", "<0.5", "<0.6", True),
        ("top.py", "x = 1", "x = 2", True),
        ("my_env/data/train.jsonl", "1", "2", True),
    ],
)
def test_content_moves_with_every_edit_and_source_only_with_those_that_matter(
    folder: Path, path: str, old: str, new: str, moves_source: bool
) -> None:
    before = taken(folder)
    text = (folder / path).read_text(encoding="utf-8")
    (folder / path).write_text(text.replace(old, new), encoding="utf-8")
    after = taken(folder)
    assert after.content != before.content
    assert (after.source != before.source) is moves_source
    (folder / path).write_text(text, encoding="utf-8")
    assert (taken(folder).content, taken(folder).source) == (before.content, before.source)


def test_a_file_the_push_leaves_out_moves_nothing(folder: Path) -> None:
    before = taken(folder)
    (folder / "data.json").write_text("[1]", encoding="utf-8")
    assert taken(folder) == before


def test_a_stored_copy_that_was_changed_is_noticed_and_made_anew(folder: Path) -> None:
    first = taken(folder)
    os.chmod(first.tree, 0o755)
    os.chmod(first.tree / "top.py", 0o644)
    (first.tree / "top.py").write_text("x = 'evil'\n", encoding="utf-8")
    with pytest.raises(LabError, match="changed"):
        snapshots.verify_snapshot(first)
    again = taken(folder)
    assert (again.tree / "top.py").read_text(encoding="utf-8") == "x = 1\n"
    snapshots.verify_snapshot(again)


def test_a_broken_pyproject_is_still_a_snapshot_with_the_problem_named(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("name = [", encoding="utf-8")
    assert "not valid TOML" in (taken(folder).manifest.problem or "")
    (folder / "pyproject.toml").write_bytes(b"\xff\xfe")
    assert "UTF-8" in (taken(folder).manifest.problem or "")


def test_a_folder_that_is_too_big_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_BYTES", 10)
    with pytest.raises(BadInput, match="environment holds"):
        taken(folder)


def test_cleaning_keeps_the_newest_and_those_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = folder.parent / "store"
    made = []
    for number in range(5):
        (folder / "top.py").write_text(f"x = {number}\n", encoding="utf-8")
        made.append(taken(folder).content)
        os.utime(store / made[-1], (number, number))
    monkeypatch.setattr(snapshots, "MOST_SNAPSHOTS", 2)
    assert snapshots.clean_snapshots(store, frozenset({made[0]})) == 2
    assert {p.name for p in store.iterdir()} == {made[0], made[3], made[4]}


def test_what_is_no_regular_file_is_left_out_by_name(folder: Path) -> None:
    os.mkfifo(folder / "my_env" / "pipe")
    (folder / "shared").symlink_to(folder.parent)
    (folder / ".hidden_link").symlink_to(folder.parent)
    left = {item.path: item.why for item in taken(folder).left_out}
    assert left["my_env/pipe"] == "it is no regular file"
    assert left["shared/"] == "a link to a folder is never pushed"
    assert ".hidden_link/" not in left


def test_a_folder_of_too_many_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_FILES", 3)
    with pytest.raises(BadInput, match=r"environment holds \d+ files"):
        taken(folder)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(BadInput) as caught:
        snapshots._read(folder, ["gone.py"])
    assert (caught.value.code, caught.value.message[:7]) == ("unreadable-file", "gone.py")


def test_a_stored_snapshot_is_loaded_by_its_content_unless_its_copy_changed(folder: Path) -> None:
    first, store = taken(folder), folder.parent / "store"
    again = snapshots.stored_snapshot(store, first.content, folder.name)
    assert again is not None
    assert (again.source, again.cli_hash, again.files) == (first.source, first.cli_hash, first.files)
    assert snapshots.stored_snapshot(store, "0" * 64, folder.name) is None
    os.chmod(first.tree, 0o755)
    (first.tree / "more.py").write_text("", encoding="utf-8")
    assert snapshots.stored_snapshot(store, first.content, folder.name) is None


@pytest.mark.parametrize("change", ["more", "fewer", "link"])
def test_every_change_of_a_stored_copy_is_noticed(folder: Path, change: str) -> None:
    first = taken(folder)
    os.chmod(first.tree, 0o755)
    if change == "more":
        (first.tree / "more.py").write_text("", encoding="utf-8")
    else:
        (first.tree / "top.py").unlink()
    if change == "link":
        (first.tree / "top.py").symlink_to(folder / "top.py")
    with pytest.raises(LabError, match="changed"):
        snapshots.verify_snapshot(first)


def test_a_copy_that_cannot_be_written_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshots, "_write_tree", full)
    with pytest.raises(OSError, match="No space"):
        taken(folder)
    assert list((folder.parent / "store").iterdir()) == []


def test_a_copy_that_is_damaged_again_and_again_ends_in_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(LabError, match="cannot be stored"):
        taken(folder)
    assert [path.name for path in (folder.parent / "store").iterdir() if path.name.startswith(".building")] == []


def code_of(folder: Path, pyproject: str = PYPROJECT) -> Path:
    (folder / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    return snapshots.code_tree(taken(folder))


def test_code_runs_without_the_readme_and_the_version_that_its_source_does_not_cover(folder: Path) -> None:
    tree = code_of(folder)
    assert not (tree / "README.md").exists()
    manifest = parse_manifest((tree / "pyproject.toml").read_bytes())
    assert (manifest.version, manifest.readme, manifest.name) == ("0", None, "my-env")
    assert (tree / "top.py").read_text(encoding="utf-8") == "x = 1\n"
    assert snapshots.code_tree(taken(folder)) == tree


@pytest.mark.parametrize(
    ("pyproject", "project"),
    [("[project]\nname = 'a'\n", {"name": "a"}), ("[tool.x]\ny = 1\n", None), ("name = [", "broken")],
    ids=["neither version nor readme", "no project", "broken"],
)
def test_code_runs_with_what_is_there_of_a_manifest(folder: Path, pyproject: str, project: object) -> None:
    text = (code_of(folder, pyproject) / "pyproject.toml").read_bytes()
    found = parse_manifest(text)
    assert (pyproject == text.decode()) if project == "broken" else (found.table.get("project") == project)


def test_code_that_reads_its_readme_runs_beside_it(folder: Path) -> None:
    (folder / "top.py").write_text("x = open('README.md')\n", encoding="utf-8")
    assert (code_of(folder) / "README.md").is_file()


def test_a_folder_of_code_that_was_changed_is_made_anew(folder: Path) -> None:
    tree = code_of(folder)
    os.chmod(tree, 0o755)
    (tree / "top.py").unlink()
    with pytest.raises(LabError, match="changed"):
        snapshots.verify_snapshot(taken(folder))
    assert (snapshots.code_tree(taken(folder)) / "top.py").is_file()


def test_where_files_cannot_be_linked_the_code_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    assert (code_of(folder) / "top.py").read_text(encoding="utf-8") == "x = 1\n"


def test_a_folder_of_code_that_cannot_be_stored_ends_in_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = taken(folder)

    def busy(*_: object) -> None:
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(LabError, match="in which its code runs cannot be stored"):
        snapshots.code_tree(snapshot)


def test_of_two_calls_that_store_the_same_code_the_second_takes_that_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, renamed = taken(folder), os.rename

    def lost(origin: Path, target: Path) -> None:
        monkeypatch.setattr(os, "rename", renamed)
        snapshots.code_tree(snapshot)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "rename", lost)
    assert (snapshots.code_tree(snapshot) / "top.py").is_file()


def test_a_folder_is_read_again_only_where_something_in_it_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SETTLED_SECONDS", -3600.0)  # files of tests are new
    reads, place = snapshots.FolderSnapshots(None), EnvironmentFolder(folder.name, folder, folder.name)
    first = reads.take(place)
    assert reads.take(place) is first
    (folder / "top.py").write_text("x = 12\n", encoding="utf-8")
    second = reads.take(place)
    assert second is not first
    (folder / "linked").symlink_to(folder.parent)
    assert reads.take(place) is not reads.take(place)


def test_a_folder_that_is_gone_has_no_times(tmp_path: Path) -> None:
    assert snapshots._folder_times(tmp_path / "gone") is None


def test_of_two_calls_that_store_the_same_files_the_second_takes_the_copy_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = os.rename

    def lost(origin: Path, target: Path) -> None:
        monkeypatch.setattr(os, "rename", renamed)
        taken(folder)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "rename", lost)
    first = taken(folder)
    assert (first.tree / "top.py").is_file()
    assert [path.name for path in (folder.parent / "store").iterdir()] == [first.content]
