"""What the guide quotes is what the tools say, for the commands that take no model."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from shutil import copytree

import pytest

from prime_lab_mcp.cli.tool_arguments import parse_pairs, tool_help
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import Desk

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
QUOTED = ("inspect_dataset", "search_hub", "write_training_config", "check_training_config", "submit_training")
LABEL = " (Rehearsal: the platform is a stand-in.)"


def quoted() -> list[tuple[list[str], str]]:
    """Each quoted call of these tools, as words, with the line that the guide shows for it."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").replace("\\\n", " ")
    pairs = re.findall(r"^\$ prime-lab-mcp call (.+)\n(.+)$", guide, re.M)
    calls = [(shlex.split(line), shown) for line, shown in pairs]
    return [(words, shown) for words, shown in calls if words[0] in QUOTED]


async def test_the_guide_quotes_what_the_tools_say(at: Desk) -> None:
    calls = quoted()
    assert [words[0] for words, _ in calls] == ["inspect_dataset", *QUOTED]
    copytree(ROOT / "environments" / "ticket_routing", at.workspace / "environments" / "ticket_routing")
    for words, shown in calls:
        given = parse_pairs([word for word in words[1:] if word != "--rehearsal"], tool_help(words[0]))
        report = await Calls(at.lab, TOOLS, References()).execute(words[0], given)
        assert f"{report.status}: {report.summary.removesuffix(LABEL)}" == shown
