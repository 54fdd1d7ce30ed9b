"""What an agent can be asked to do: one Markdown file a prompt, with `{slots}` for its arguments."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def text(name: str, /, **slots: str) -> str:
    """The prompt with its slots filled; a slot's text is quoted as the user's words, never as ours."""
    page = (HERE / f"{name}.md").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda found: slots.get(found[1], found[0]).strip() or "(not said)", page)
