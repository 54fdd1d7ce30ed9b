"""Texts of environment packages that tests write."""

from __future__ import annotations

from collections.abc import Sequence


def pyproject(
    name: str,
    *,
    description: str,
    dependencies: Sequence[str],
    tags: Sequence[str] = (),
    readme: bool = False,
    wheel: str = "",
    more: str = "",
) -> str:
    """A whole pyproject.toml for hatchling. `wheel` is the content of the table of the wheel, `more` ends the file."""
    lines = [
        "[build-system]",
        'requires = ["hatchling"]',
        'build-backend = "hatchling.build"',
        "",
        "[project]",
        f'name = "{name}"',
        'version = "0.1.0"',
        f'description = "{description}"',
        *(['readme = "README.md"'] if readme else []),
        'requires-python = ">=3.11"',
        *([f"tags = [{_listed(tags)}]"] if tags else []),
        f"dependencies = [{_listed(dependencies)}]",
        *(["", "[tool.hatch.build.targets.wheel]", wheel] if wheel else []),
        *(["", more] if more else []),
    ]
    return "\n".join(lines) + "\n"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)
