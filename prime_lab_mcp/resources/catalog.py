"""What an agent can read: pages under references/ and whole template packages under templates/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HERE = Path(__file__).parent
PAGES = HERE / "references"
TEMPLATES = HERE / "templates"
_HIDDEN = ("__pycache__", ".mypy_cache", ".ruff_cache")


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown page: `topic` is its path, `about` the first sentence under its title."""

    topic: str
    title: str
    about: str
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


class References:
    """Pages by topic (`guide/workflow`), template files (`template/numeric/README.md`)."""

    def pages(self) -> list[Page]:
        """Every page, by topic."""
        return [Page(_topic(path), _title(path), _about(path), path) for path in sorted(PAGES.rglob("*.md"))]

    def topics(self) -> list[tuple[str, str]]:
        """(topic, first sentence) of every page, then every template kind's files."""
        return [(page.topic, page.about) for page in self.pages()] + [
            (name, "template file") for name in self.template_files()
        ]

    def page(self, topic: str) -> str | None:
        """The text of a page or template file; None when there is none."""
        root, relative = (
            (TEMPLATES, topic.removeprefix("template/")) if topic.startswith("template/") else (PAGES, f"{topic}.md")
        )
        path = (root / relative).resolve()
        inside = path.is_relative_to(root) and not any(part in _HIDDEN for part in PurePosixPath(relative).parts)
        return path.read_text(encoding="utf-8") if inside and path.is_file() else None

    def template_files(self) -> list[str]:
        """`template/{kind}/{path}` of every file an agent may copy."""
        return [
            f"template/{path.relative_to(TEMPLATES).as_posix()}"
            for path in sorted(TEMPLATES.rglob("*"))
            if path.is_file() and not any(part in _HIDDEN for part in path.parts) and path.suffix != ".pyc"
        ]


def _topic(path: Path) -> str:
    return path.relative_to(PAGES).with_suffix("").as_posix()


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ").strip()


def _about(path: Path) -> str:
    """The first sentence under the title."""
    body = path.read_text(encoding="utf-8").split("\n", 1)[1].strip()
    return " ".join(body.split("\n\n", 1)[0].split()).split(". ")[0].rstrip(".") + "."
