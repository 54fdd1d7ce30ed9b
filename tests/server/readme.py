"""The pages that people read, and the table of tools in `docs/tools.md`.

`python -m tests.server.readme` writes the table anew.
"""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.tools.registry import TOOLS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TOOLS_PAGE = ROOT / "docs" / "tools.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
BEGIN, END = "<!-- tools: made by python -m tests.server.readme -->", "<!-- end of tools -->"


def table() -> str:
    lines = ["| tool | what it does | reaches |", "|---|---|---|"]
    reach = {
        "reads": "reads only",
        "executes": "runs environment code or a model",
        "writes": "writes in the workspace",
        "publishes": "publishes, asks first",
        "spends": "spends, asks first",
    }
    lines += [f"| `{t.name}` | {t.description.replace('|', '/')} | {reach[t.effect]} |" for t in TOOLS]
    return "\n".join(lines)


def current() -> str:
    text = TOOLS_PAGE.read_text(encoding="utf-8")
    return text.split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    text = TOOLS_PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    TOOLS_PAGE.write_text(f"{head}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
