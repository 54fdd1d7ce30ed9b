"""What killed servers left in the state directory is deleted, and what somebody may still use is not."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prime_lab_mcp.lab.state.leftovers import UNFINISHED_SECONDS, UNOWNED_SECONDS, _age, clean_leftovers, scratch_prefix

NOW = time.time()


def left(state: Path, path: str, age: float = 0.0, *, file: bool = False) -> Path:
    made = state / path
    made.mkdir(parents=True) if not file else made.parent.mkdir(parents=True, exist_ok=True)
    if file:
        made.write_text("x", encoding="utf-8")
    os.utime(made, (NOW - age, NOW - age))
    return made


def test_unfinished_folders_go_once_nobody_can_be_building_them(tmp_path: Path) -> None:
    old = left(tmp_path, "snapshots/.building-a", UNFINISHED_SECONDS + 1)
    new = left(tmp_path, "snapshots/.building-b", UNFINISHED_SECONDS - 1)
    whole = left(tmp_path, "snapshots/abc", UNFINISHED_SECONDS + 1)
    assert clean_leftovers(tmp_path, NOW) == 1
    assert [path.exists() for path in (old, new, whole)] == [False, True, True]


def test_scratch_folders_go_with_their_owner_and_others_with_their_age(tmp_path: Path) -> None:
    living = left(tmp_path, f"scratch/{scratch_prefix('zygote', os.getpid())}a", UNOWNED_SECONDS + 1)
    dead = left(tmp_path, f"scratch/{scratch_prefix('child', 999_999_999)}a")
    unowned = left(tmp_path, "scratch/other", UNOWNED_SECONDS + 1)
    young = left(tmp_path, "scratch/another", UNOWNED_SECONDS - 1)
    assert clean_leftovers(tmp_path, NOW) == 2
    assert [path.exists() for path in (living, dead, unowned, young)] == [True, False, False, True]


def test_what_another_server_deleted_meanwhile_is_new(tmp_path: Path) -> None:
    assert _age(tmp_path / "deleted", NOW) == 0.0


def test_downloads_go_with_their_age_and_are_no_folders(tmp_path: Path) -> None:
    old = left(tmp_path, "downloads/a.parquet", UNOWNED_SECONDS + 1, file=True)
    new = left(tmp_path, "downloads/b.parquet", UNOWNED_SECONDS - 1, file=True)
    assert clean_leftovers(tmp_path, NOW) == 0
    assert [path.exists() for path in (old, new)] == [False, True]


def test_a_link_among_the_leftovers_leads_to_nothing_that_is_deleted(tmp_path: Path) -> None:
    kept = left(tmp_path, "work")
    link = tmp_path / "push" / "a"
    link.parent.mkdir()
    link.symlink_to(kept)
    os.utime(link, (NOW - UNFINISHED_SECONDS - 1,) * 2, follow_symlinks=False)
    assert clean_leftovers(tmp_path, NOW) == 0
    assert kept.exists()


def test_caches_go_with_their_age(tmp_path: Path) -> None:
    old = left(tmp_path, "caches/python-3.11/a", UNOWNED_SECONDS + 1)
    new = left(tmp_path, "caches/python-3.11/b", UNOWNED_SECONDS - 1)
    assert clean_leftovers(tmp_path, NOW) == 1
    assert [path.exists() for path in (old, new)] == [False, True]
