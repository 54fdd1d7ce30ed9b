"""The kinds of environment that can be made, and the template package each is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.text import quote

SINGLE_TURN = frozenset({"numeric", "math", "choice", "classification", "boolean", "short_text", "json", "tool_call"})
"""Kinds whose answers are compared by pure modules, which the older API can use as they are."""
OLDER_BASE = "v0_single_turn"


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` is what the caller asks for; `base` the package; `answers` another one whose pure modules go into it."""

    name: str
    api: Api
    base: Path
    answers: Path | None = None


def known(templates: Path) -> list[str]:
    """Names of every template package."""
    return sorted(path.parent.name for path in templates.glob("*/pyproject.toml"))


def kind_of(templates: Path, name: str, api: Api) -> Kind:
    """The kind called `name`, for an API. Raises BadInput with the names that there are."""
    own: Api = "v0" if name.startswith("v0_") else "v1"
    offered = [k for k in known(templates) if k.startswith("v0_") or k in SINGLE_TURN or api == "v1"]
    if name not in offered:
        raise BadInput(
            f"there is no template {quote(name, 60)} for the API {api}",
            fix=f"Choose one of: {', '.join(offered)}.",
            code="unknown-template",
        )
    if own == "v0" or api == "v1":
        return Kind(name, own, templates / name)
    return Kind(name, "v0", templates / OLDER_BASE, templates / name)
