"""The import that every worker starts with."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from prime_lab_mcp.lab.worker.child import witness

from .conftest import Opened, Write, said


@pytest.fixture
def other_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a package `verifiers` that is imported instead of the installed one, and leaves nothing behind."""

    def imported() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.split(".")[0] == "verifiers"}

    (tmp_path / "verifiers").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = imported()
    for name in before:
        del sys.modules[name]
    yield tmp_path / "verifiers" / "__init__.py"
    for name in imported():
        del sys.modules[name]
    sys.modules.update(before)


def test_the_collector_rests_while_verifiers_is_imported(other_verifiers: Path) -> None:
    other_verifiers.write_text(
        "import gc\nCOLLECTS = gc.isenabled()\n__version__ = '0.1'\nclass Rubric: ...\n", encoding="utf-8"
    )
    assert witness.preload("v0")["verifiers"] == "0.1"
    assert not sys.modules["verifiers"].COLLECTS
    assert gc.isenabled()


def test_the_collector_works_again_where_the_import_fails(other_verifiers: Path) -> None:
    other_verifiers.write_text("", encoding="utf-8")
    with pytest.raises(ImportError, match="no v0 API"):
        witness.preload("v0")
    assert gc.isenabled()


@pytest.mark.anyio
async def test_no_child_imports_again_what_each_environment_needs(write: Write, opened: Opened) -> None:
    top = "BEFORE = {'mcp', 'httpcore', 'verifiers.v1.tasksets'} <= set(sys.modules)"
    async with opened(write(top=top, reward="return float(BEFORE)")) as worker:
        (scored,) = await worker.score([said(1, "2")])
    assert scored.reward == 2.0, "the environment was loaded in a process that had yet to import a second of modules"
