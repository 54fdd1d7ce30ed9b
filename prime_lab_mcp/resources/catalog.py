"""The pages that an agent can read: references, one page per finding code, and files of template packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from prime_lab_mcp.lab.authoring.assembly import Template

HERE = Path(__file__).parent
PAGES = HERE / "references"
TEMPLATES = HERE / "templates"
FINDINGS = HERE / "findings"
"""Folder of the finding pages: one file per family, with a section `## code` per code."""


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
    """Pages by topic (`guide/workflow`), findings (`finding/leak-exact`), template files (`template/numeric/...`).

    `finding` is a list of all codes, `template/numeric` one of a template's files.
    """

    def pages(self) -> list[Page]:
        """Every page, by topic."""
        return [Page(_topic(path), _title(path), _about(path), path) for path in sorted(PAGES.rglob("*.md"))]

    def topics(self) -> list[tuple[str, str]]:
        """(topic, first sentence) of every page, then the lists of findings and of each template's files."""
        listed = [(page.topic, page.about) for page in self.pages()]
        listed.append(("finding", f"All {len(self.finding_codes())} finding codes; read one as finding/CODE."))
        return listed + [(f"template/{kind}", "Files of the template.") for kind in self.template_kinds()]

    def names(self) -> list[str]:
        """Every topic that `page` accepts."""
        codes = [f"finding/{code}" for code in self.finding_codes()]
        return [topic for topic, _ in self.topics()] + codes + self.template_files()

    def finding_codes(self) -> list[str]:
        """Every code that has a page."""
        return sorted(_sections())

    def page(self, topic: str) -> str | None:
        """The text of a page, list or template file; None for an unknown topic."""
        if topic == "finding":
            return _list_of_findings()
        if topic.startswith("finding/"):
            section = _sections().get(topic.removeprefix("finding/"))
            return None if section is None else section[1]
        if topic in {f"template/{kind}" for kind in self.template_kinds()}:
            return "\n".join(name for name in self.template_files() if name.startswith(f"{topic}/"))
        if topic.startswith("template/"):
            _, kind, *parts = topic.split("/")
            template = _templates().get(kind)
            relative = "/".join(parts)
            return template.text(relative) if template is not None and relative in template.sources else None
        path = (PAGES / f"{topic}.md").resolve()
        return path.read_text(encoding="utf-8") if path.is_relative_to(PAGES) and path.is_file() else None

    def template_kinds(self) -> list[str]:
        """The names of the templates."""
        return sorted(_templates())

    def template_files(self) -> list[str]:
        """`template/{kind}/{path}` of every file an agent may copy."""
        return [
            f"template/{kind}/{path}" for kind, template in sorted(_templates().items()) for path in template.sources
        ]


def _templates() -> dict[str, Template]:
    """Every template by its kind, and the parts of a port, which are no whole package."""
    return {path.name: Template(path) for path in TEMPLATES.iterdir() if path.is_dir() and path.name[0] not in "_."}


@cache
def _sections() -> dict[str, tuple[str, str]]:
    """Family and page of every finding code."""
    sections: dict[str, tuple[str, str]] = {}
    for path in sorted(FINDINGS.glob("*.md")):
        for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            code, _, body = section.partition("\n")
            if code in sections:
                raise ValueError(f"{path.name}: {code} has a page already, in {sections[code][0]}.md")
            sections[code] = (path.stem, f"# {code}\n\n{body.strip()}\n")
    return sections


def _list_of_findings() -> str:
    families: dict[str, list[str]] = {}
    for code, (family, _) in sorted(_sections().items()):
        families.setdefault(family.partition("-")[0], []).append(code)  # `config` and `config-rules` are one family
    return "\n".join(f"{family}: {_braced(codes)}" for family, codes in families.items())


def _braced(codes: list[str]) -> str:
    """Sorted codes, grouped by the words that they begin with: `eval-{busy rollouts-{few lost}} not-local`."""
    parts = []
    for word, found in groupby(codes, key=lambda code: code.partition("-")[0]):
        same = list(found)
        grouped = len(same) > 1 and all("-" in code for code in same)
        rest = _braced([code.removeprefix(f"{word}-") for code in same]) if grouped else ""
        parts.append(f"{word}-{{{rest}}}" if grouped else " ".join(same))
    return " ".join(parts)


def _topic(path: Path) -> str:
    return path.relative_to(PAGES).with_suffix("").as_posix()


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ").strip()


def _about(path: Path) -> str:
    """The first sentence under the title."""
    body = path.read_text(encoding="utf-8").split("\n", 1)[1].strip()
    return " ".join(body.split("\n\n", 1)[0].split()).split(". ")[0].rstrip(".") + "."
