"""The texts of the prompts: one Markdown file per prompt, with `{slots}` for its arguments."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def text(name: str, /, **slots: str) -> str:
    """Fill the slots of a prompt. The text of an argument is quoted as the user's words."""
    page = (HERE / f"{name}.md").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda match: slots.get(match[1], match[0]).strip() or "(not said)", page)
