"""The texts of the prompts: one Markdown file per prompt, with `{slots}` for its arguments."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def text(name: str, /, **slots: str) -> str:
    """Fill the slots of a prompt. The text of an argument is quoted as the user's words.

    In a call (`tool(name={name})`), the placeholder `"NAME"` stands for an argument that was not given.
    """
    page = (HERE / f"{name}.md").read_text(encoding="utf-8")

    def filled(match: re.Match[str]) -> str:
        missing = f'"{match[2].upper()}"' if match[1] else "(not said)"
        return match[1] + (slots.get(match[2], match[0].removeprefix(match[1])).strip() or missing)

    return re.sub(r"(=?)\{(\w+)\}", filled, page)
