"""What the code cites can be opened by whoever reads the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "prime_lab_mcp"
_PAGE = re.compile(r"docs/[\w./-]+\.md")
_SECTION = re.compile(r"(docs/[\w./-]+\.md),\s+([A-Z][a-z]+(?: [a-z]+)?)")
_ABSENT = re.compile(r"\bfacts/|\b(?:facts|validation) \d\.\d|\bDESIGN\b(?!\w)|\bHOUSE\b|\bBRIEF\b")


def sources() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".md", ".toml", ".json", ".html", ".js") and "__pycache__" not in path.parts
    }


def test_every_cited_page_and_section_exists() -> None:
    missing: list[str] = []
    cited = 0
    for name, text in sources().items():
        joined = re.sub(r"\s*\n\s*(?:#\s*)?", " ", text)
        for page in _PAGE.findall(joined):
            if name.endswith(".py"):
                cited += 1
                if not (ROOT / page).is_file():
                    missing.append(f"{name}: {page}")
        for page, section in _SECTION.findall(joined) if name.endswith(".py") else ():
            headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
            if not any(section.startswith(heading) for heading in headings):
                missing.append(f"{name}: {page}, {section}")
    assert missing == []
    assert cited > 30


def test_nothing_cites_a_document_that_the_repository_does_not_have() -> None:
    assert [f"{name}: {found[0]}" for name, text in sources().items() for found in _ABSENT.finditer(text)] == []
