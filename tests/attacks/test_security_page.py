"""The page about security names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_about_security_names_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/]+\.py|prime_lab_mcp/[\w/]+\.py)`", page))
    assert len(named) >= 8
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_the_readme_links_the_page_about_security() -> None:
    assert "(docs/security.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_about_gates_names_is_there() -> None:
    page = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", page)
    assert len(named) >= 30
    missing = []
    for path, name in named:
        file = ROOT / (path if path.startswith("tests/") else f"tests/attacks/{path}")
        if not file.is_file() or f"def {name}(" not in file.read_text(encoding="utf-8"):
            missing.append(f"{path}::{name}")
    assert missing == []
