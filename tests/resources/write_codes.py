"""Writes `prime_lab_mcp/lab/base/codes.py` from the finding pages: `python -m tests.resources.write_codes`."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.resources.catalog import References

TARGET = Path(__file__).parents[2] / "prime_lab_mcp" / "lab" / "base" / "codes.py"
_BEFORE = '''"""Defines the type of finding codes, so that mypy rejects a code that is misspelled or has no page.

This module is generated from `prime_lab_mcp/resources/findings/*.md`. After adding or renaming a page, run
`make codes` (or `python -m tests.resources.write_codes`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

Code: TypeAlias = Literal[
'''
_AFTER = ''']


def recorded_code(text: str) -> Code:
    """Return a recorded or received code as `Code`, without checking it.

    An older version may have written a code that has no page any more.
    """
    return cast("Code", text)
'''


def module_text() -> str:
    """The module's text for today's pages."""
    lines = [f'    "{code}",\n' for code in References().finding_codes()]
    return _BEFORE + "".join(lines) + _AFTER


if __name__ == "__main__":
    TARGET.write_text(module_text(), encoding="utf-8")
