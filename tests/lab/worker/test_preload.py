"""The import that every worker starts with."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from prime_lab_mcp.lab.worker.child import witness

from .conftest import Opened, Write, said


def test_the_collector_rests_while_verifiers_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text(
        "import gc\nCOLLECTS = gc.isenabled()\n__version__ = '0.1'\nclass Rubric: ...\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "verifiers", raising=False)
    assert witness.preload("v0")["verifiers"] == "0.1"
    assert not sys.modules["verifiers"].COLLECTS
    assert gc.isenabled()
    monkeypatch.delitem(sys.modules, "verifiers")


def test_the_collector_works_again_where_the_import_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "verifiers", raising=False)
    with pytest.raises(ImportError, match="no v0 API"):
        witness.preload("v0")
    assert gc.isenabled()
    monkeypatch.delitem(sys.modules, "verifiers")


@pytest.mark.anyio
async def test_no_child_imports_again_what_each_environment_needs(write: Write, opened: Opened) -> None:
    top = "BEFORE = {'mcp', 'httpcore', 'verifiers.v1.tasksets'} <= set(sys.modules)"
    async with opened(write(top=top, reward="return float(BEFORE)")) as worker:
        (scored,) = await worker.score([said(1, "2")])
    assert scored.reward == 2.0, "the environment was loaded in a process that had yet to import a second of modules"
