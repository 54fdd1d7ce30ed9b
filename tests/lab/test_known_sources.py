"""What the toolchain requires without a wheel is installed from known sources, so that no build has to be confined."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab import interpreter

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
NO_WHEEL = "Because gitignore-parser==0.1.13 has no usable wheels and prime==0.18.0 depends on gitignore-parser>=0.1.13"


async def test_a_package_of_prime_without_a_wheel_is_built_by_its_hash_and_unconfined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[list[str]] = []

    async def uv(arguments: list[str], cwd: Path, environment: Any = None, confinement: Any = None) -> None:
        assert confinement is None
        runs.append(arguments)
        if len(runs) == 1:
            raise interpreter.InterpreterError(NO_WHEEL, fix="")

    monkeypatch.setattr(interpreter, "_uv", uv)
    await interpreter._install(tmp_path, tmp_path / "python", tmp_path / "requirements.txt")
    assert ["--no-build" in run for run in runs] == [True, False, True]
    assert "--require-hashes" in runs[1]
    assert (tmp_path / "sources.txt").read_text(encoding="utf-8").startswith("gitignore-parser==")


def test_the_known_version_is_the_one_that_is_tested_here() -> None:
    pinned = re.findall(r"^gitignore-parser==\S+$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    assert interpreter._KNOWN_SOURCES["gitignore-parser"].split()[:1] == pinned
