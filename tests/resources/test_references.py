"""References that are generated stand as the installed packages and the vendored schema make them."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs import schema
from tests.resources import config_page, signatures
from tests.resources.codes import emitted
from tests.resources.fenced import PAGES, blocks, page
from tests.support.laws import every

LIMIT = 40_000
UV = Path(__import__("sys").executable).parent / "uv"


def test_the_v1_reference_is_what_the_installed_package_gives() -> None:
    assert page("reference/verifiers-v1") == signatures.main("v1")
    assert f"`verifiers.v1` {version('verifiers')}" in page("reference/verifiers-v1")


@pytest.mark.slow
def test_the_v0_reference_is_what_its_last_release_gives(tmp_path: Path) -> None:
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, "verifiers==0.1.14"]
    subprocess.run(install, check=True, timeout=300)
    assert page("reference/verifiers-v0") == signatures.main("v0", str(tmp_path / "verifiers"))


def test_the_config_reference_is_what_the_schema_gives() -> None:
    assert page("reference/training-config") == config_page.render()


def test_the_config_reference_names_every_rule_that_there_is() -> None:
    named = [code for codes in config_page.RULES.values() for code in codes.split()]
    places = emitted()[0]
    judging = ("lab/configs/rules", "lab/configs/examine.py")
    ruled = {code for code, files in places.items() if any(file.startswith(judging) for file in files)}
    assert ruled - set(named) == set()
    assert [code for code in named if code not in places] == []
    assert len(named) == len(set(named))


@every("key", [key for keys in config_page.GROUPS.values() for key in keys])
def test_a_listed_config_key_is_known_to_the_schema(key: str) -> None:
    assert key in config_page.PLUGIN or config_page.find(key)


def test_the_example_config_is_valid() -> None:
    (code,) = [code for language, code in blocks(page("reference/training-config")) if language == "toml"]
    assert schema.schema_problems(tomllib.loads(code)) == []


@every("path", sorted(PAGES.rglob("*.md")), ids=lambda p: p.stem)
def test_a_page_is_small_enough_to_read(path: Path) -> None:
    assert len(path.read_bytes()) < LIMIT


PYTHON = [
    (path.stem, number, code)
    for path in sorted(PAGES.rglob("*.md"))
    for number, (language, code) in enumerate(blocks(path.read_text(encoding="utf-8")))
    if language == "python"
]


@every(("name", "number", "code"), PYTHON, ids=[f"{name}-{number}" for name, number, _ in PYTHON])
def test_python_on_a_page_parses(name: str, number: int, code: str) -> None:
    ast.parse(code)


GUIDES = ("guide/environments", "guide/rewards", "guide/training")


@every("topic", GUIDES)
def test_guides_name_only_what_verifiers_v1_exports(topic: str) -> None:
    source = Path(signatures.main.__globals__["importlib"].util.find_spec("verifiers.v1").origin)
    tree = ast.parse(source.read_text(encoding="utf-8"))
    exported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(set(re.findall(r"\bvf\.(\w+)", page(topic))) - exported) == []
