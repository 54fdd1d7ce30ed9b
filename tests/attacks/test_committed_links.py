"""No symbolic link is committed: whoever writes where it leads decides what stands in a clone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="no clone of the repository")
def test_no_symbolic_link_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line for line in listed.stdout.split("\0") if line.startswith("120000 ")] == []
