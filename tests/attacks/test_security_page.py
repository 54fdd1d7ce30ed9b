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
