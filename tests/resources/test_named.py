"""Prompts and guides call only tools that exist, with arguments that they take, and link only pages that exist."""

from __future__ import annotations

import re

from prime_lab_mcp.resources.catalog import References
from tests.resources.fenced import PAGES
from tests.resources.known import ROOT, codes, tools
from tests.support.laws import every

TEXTS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in [*PAGES.glob("guide/*.md"), PAGES / "reference/prime-cli.md", *(ROOT / "prompts").glob("*.md")]
}
CALL = re.compile(r"\b([a-z]+(?:_[a-z]+)+)\(([^()`]*)\)")
LINK = re.compile(r"lab://((?:guide|reference|template|finding)/[\w./{}-]+)")
GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in PAGES.glob("guide/*.md")}
OTHER_FUNCTIONS = {
    "load_environment",
    "setup_task",
    "get_format_reward_func",
    "parse_answer",
    "harness_config_type",
    "format_map",
    "from_list",
    "verify_boxed_math_answer",
    "read_text",
    "correct_answer",
    "turn",
    "answer_format",
    "load_dataset",
    "reply_characters",
}


def calls(text: str) -> list[tuple[str, list[str]]]:
    """(tool, argument names) of every call written out; code of environments in fences is left out."""
    prose = re.sub(r"```(?:python|toml)\n.*?```", "", text, flags=re.S)
    return [(name, re.findall(r"(?:^|[\s(,])(\w+)=", given)) for name, given in CALL.findall(prose)]


@every("name", sorted(TEXTS))
def test_a_call_that_is_written_out_has_a_tool_and_its_arguments(name: str) -> None:
    wrong = [
        (tool, sorted(set(given) - tools().get(tool, frozenset())))
        for tool, given in calls(TEXTS[name])
        if tool not in OTHER_FUNCTIONS and (tool not in tools() or set(given) - tools()[tool])
    ]
    assert wrong == []


@every("name", sorted(TEXTS))
def test_a_link_leads_to_a_page(name: str) -> None:
    references = References()
    missing = []
    for topic in LINK.findall(TEXTS[name]):
        topic = topic.rstrip(".")
        if "{" not in topic and references.page(topic) is None:
            missing.append(topic)
    assert missing == []


@every("name", sorted(GUIDES))
def test_a_finding_in_brackets_exists(name: str) -> None:
    named = {
        code
        for found in re.findall(r"\((`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)\)", GUIDES[name])
        for code in re.findall(r"`([a-z0-9-]+)`", found)
    }
    runtimes = {"docker", "podman", "apptainer", "prime"}
    assert sorted(named - codes() - runtimes) == []


def test_kinds_of_templates_on_the_page_are_those_on_disk() -> None:
    table = GUIDES["environments"].split("| kind | for |")[1].split("\n\n")[0]
    named = {kind for row in table.splitlines() for kind in re.findall(r"`(\w+)`", row.split("|")[1] if row else "")}
    assert named == {path.parent.name for path in (ROOT / "resources/templates").glob("*/pyproject.toml")}
