"""The versions that the code rests on are those that the package installs and that its lists claim."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from prime_lab_mcp.lab.base import versions

ROOT = Path(__file__).parents[3]


def test_the_extra_installs_the_toolchain_that_the_code_builds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(project["optional-dependencies"]["lab"]) == sorted(versions.TOOLCHAIN)
    lowest, highest = versions.OLDEST_PYTHON, versions.NEWEST_PYTHON
    assert project["requires-python"] == f">={lowest[0]}.{lowest[1]},<{highest[0]}.{highest[1] + 1}"


def test_requirements_admit_the_releases_they_are_for_and_no_others() -> None:
    old = [f"0.1.{patch}" for patch in range(14)]
    for text, admitted in (
        (versions.V1_REQUIREMENT, {*versions.V1_RELEASES}),
        (versions.V0_INSTALLED, {*versions.V0_RELEASES} - {*old}),
        (versions.V0_ADVISED, {*versions.RELEASES_BEFORE_0_2} - {*old}),
    ):
        specifier = Requirement(text).specifier
        every = {*versions.RELEASES_BEFORE_0_2, *versions.V0_RELEASES, *versions.V1_RELEASES, *versions.LATER_RELEASES}
        assert {v for v in every if v in specifier} == admitted, text


def test_no_other_module_states_a_version_of_the_toolchain() -> None:
    """As a value: prose names the version that a fact was read from."""
    pinned = r"""["'](?:verifiers|prime|datasets)(?:==|>=)[^"']*["']"""
    stated = re.compile(pinned + r"""|["']0\.(?:1\.14|2\.1|3\.1|4\.\d|18\.0)["']""")
    code = ROOT / "prime_lab_mcp"
    assert [
        f"{path.relative_to(code)}: {found[0]}"
        for folder in ("lab", "tools", "server", "cli")
        for path in sorted((code / folder).rglob("*.py"))
        if path.name != "versions.py"
        for found in stated.finditer(path.read_text(encoding="utf-8"))
    ] == []
