"""`read_reference` gives every text whole, page after page, as structured content and as text."""

from __future__ import annotations

import json

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import rendering
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

pytestmark = pytest.mark.anyio


async def pages(calls: Calls, topic: str) -> list[str]:
    """The text of each page, as a client gets it; the two forms of a result must hold the same."""
    texts, number, of = [], 0, 1
    while number < of:
        number += 1
        report = await calls.execute("read_reference", {"topic": topic, "page": number})
        content = rendering.structured(report)
        of = content["data"]["pages"]
        assert content["data"]["page"] == number
        assert f"page {number} of {of}" in content["summary"]
        assert json.dumps(content["data"]["text"], ensure_ascii=False) in rendering.text(content), (topic, number)
        texts.append(content["data"]["text"])
    return texts


async def test_every_section_of_every_page_and_every_template_file_can_be_read(lab: Lab) -> None:
    references = References()
    calls, cut = Calls(lab, TOOLS, references), []
    for topic in references.names():
        whole = references.page(topic)
        assert whole is not None
        if "".join(await pages(calls, topic)) != whole:
            cut.append(topic)
    assert cut == []


async def test_every_topic_stands_in_the_list_in_both_forms_of_the_result(lab: Lab) -> None:
    references = References()
    content = rendering.structured(await Calls(lab, TOOLS, references).execute("read_reference", {}))
    shown = rendering.text(content)
    wanted = [name for name, _ in references.topics()]
    assert [name for name in wanted if name not in {entry["topic"] for entry in content["data"]["topics"]}] == []
    assert [name for name in wanted if f'"{name}"' not in shown] == []
